"""`headrace topic` on a real broker."""

from __future__ import annotations

import json

from confluent_kafka import Producer

from tests.cli.conftest import Headrace


def test_created_topic_is_listed_and_described(headrace: Headrace, name: str) -> None:
    headrace("topic", "create", name, "--partitions", "3", "--config", "retention.ms=123456")

    listed = {each["topic"]: each for each in json.loads(headrace("topic", "list", "--format", "json").out)}
    assert listed[name] == {"topic": name, "partitions": 3, "offsets": 0}
    described = json.loads(headrace("topic", "describe", name, "--format", "json").out)
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
    assert described["configs"]["retention.ms"] == "123456"
    assert "cleanup.policy" not in described["configs"]


def test_describe_shows_start_and_end_of_each_partition(headrace: Headrace, topic: str) -> None:
    headrace("produce", topic, "--partition", "1", stdin="a\nb\nc\n")

    empty, written = json.loads(headrace("topic", "describe", topic, "--format", "json").out)["partitions"]

    assert written.pop("size_bytes") > 0
    assert empty == {
        "partition": 0,
        "start_offset": 0,
        "end_offset": 0,
        "offsets": 0,
        "size_bytes": 0,
        "read_only": None,
    }
    assert written == {"partition": 1, "start_offset": 0, "end_offset": 3, "offsets": 3, "read_only": None}


def test_describe_as_text_has_offsets_and_settings(headrace: Headrace, topic: str) -> None:
    headrace("topic", "alter", topic, "--config", "retention.ms=777000")

    shown = headrace("topic", "describe", topic).out

    assert f"topic {topic}" in shown
    assert "777000" in shown


def test_all_configs_include_the_defaults(headrace: Headrace, topic: str) -> None:
    described = json.loads(headrace("topic", "describe", topic, "--all-configs", "--format", "json").out)

    assert described["configs"]["cleanup.policy"] == "delete"


def test_existing_topic_is_rejected_with_the_remedy(headrace: Headrace, topic: str) -> None:
    rejected = headrace("topic", "create", topic, code=1)

    assert "already exists" in rejected.err
    assert "--if-not-exists" in rejected.err
    assert "exists already" in headrace("topic", "create", topic, "--if-not-exists").out


def test_internal_topics_are_listed_only_with_internal(headrace: Headrace, topic: str, name: str) -> None:
    # A commit makes the broker create the topic that it keeps offsets in.
    headrace("produce", topic, stdin="x\n")
    headrace("consume", topic, "--group", name)

    plain = json.loads(headrace("topic", "list", "--format", "json").out)
    everything = json.loads(headrace("topic", "list", "--internal", "--format", "json").out)

    assert "__consumer_offsets" not in [each["topic"] for each in plain]
    assert "__consumer_offsets" in [each["topic"] for each in everything]


def test_setting_can_be_changed_and_reset(headrace: Headrace, topic: str) -> None:
    headrace(
        "topic", "alter", topic, "--config", "retention.ms=1000000", "--config", "max.message.bytes=5000"
    )
    changed = json.loads(headrace("topic", "describe", topic, "--format", "json").out)["configs"]
    headrace("topic", "alter", topic, "--delete-config", "retention.ms")
    after = json.loads(headrace("topic", "describe", topic, "--format", "json").out)["configs"]

    assert changed["retention.ms"] == "1000000"
    assert changed["max.message.bytes"] == "5000"
    assert "retention.ms" not in after
    assert after["max.message.bytes"] == "5000"


def test_unknown_setting_is_rejected(headrace: Headrace, topic: str) -> None:
    rejected = headrace("topic", "alter", topic, "--config", "no.such.setting=1", code=1)

    assert "no.such.setting" in rejected.err


def test_partitions_can_be_added_but_not_removed(headrace: Headrace, topic: str) -> None:
    headrace("topic", "alter", topic, "--partitions", "5")
    rejected = headrace("topic", "alter", topic, "--partitions", "2", code=1)

    described = json.loads(headrace("topic", "describe", topic, "--format", "json").out)
    assert len(described["partitions"]) == 5
    assert "never removed" in rejected.err


def test_delete_requires_yes_and_names_the_records_that_would_be_lost(headrace: Headrace, topic: str) -> None:
    headrace("produce", topic, stdin="a\nb\n")

    rejected = headrace("topic", "delete", topic, code=1)
    assert "2 records" in rejected.err
    assert "--yes" in rejected.err
    headrace("topic", "delete", topic, "--yes")
    missing = headrace("topic", "describe", topic, code=1)
    assert f"there is no topic {topic}" in missing.err


def test_illegal_name_is_rejected_with_the_rule(headrace: Headrace) -> None:
    rejected = headrace("topic", "create", "not a name", code=1)

    assert "1 to 249 letters" in rejected.err


def test_misspelt_topic_gets_a_suggestion(headrace: Headrace, topic: str) -> None:
    rejected = headrace("topic", "describe", f"{topic}x", code=1)

    assert f"did you mean {topic}?" in rejected.err


def test_pair_without_value_is_rejected(headrace: Headrace, name: str) -> None:
    rejected = headrace("topic", "create", name, "--config", "retention.ms", code=1)

    assert "name=value" in rejected.err


def test_alter_without_a_change_is_wrong_usage(headrace: Headrace, topic: str) -> None:
    assert "nothing to change" in headrace("topic", "alter", topic, code=2).err


def test_marker_of_a_transaction_counts_as_an_offset_and_not_as_a_record(
    headrace: Headrace, topic: str, environment: dict[str, str]
) -> None:
    producer = Producer(
        {"bootstrap.servers": environment["HEADRACE_BOOTSTRAP"], "transactional.id": f"{topic}-writer"}
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, "x", partition=0)
    producer.commit_transaction(60)

    listed = {each["topic"]: each for each in json.loads(headrace("topic", "list", "--format", "json").out)}
    assert listed[topic] == {"topic": topic, "partitions": 2, "offsets": 2}
    assert headrace("consume", topic).lines == ["x"]
    assert "holds up to 2 records" in headrace("topic", "delete", topic, code=1).err


def test_several_topics_are_created_and_deleted_in_one_call(headrace: Headrace, name: str) -> None:
    names = [f"{name}-a", f"{name}-b"]

    created = json.loads(
        headrace("topic", "create", *names, "--replication-factor", "1", "--format", "json").out
    )
    again = headrace("topic", "create", *names, f"{name}-c", "--if-not-exists").lines
    deleted = json.loads(headrace("topic", "delete", *names, "--yes", "--format", "json").out)

    assert created == [{"topic": each, "created": True} for each in names]
    assert again == [*(f"topic {each} exists already" for each in names), f"created topic {name}-c"]
    assert deleted == [{"topic": each, "offsets": 0} for each in names]


def test_one_of_several_topics_that_cannot_be_created_stops_no_other(headrace: Headrace, topic: str) -> None:
    rejected = headrace("topic", "create", topic, f"{topic}-new", code=1)

    assert rejected.out == f"created topic {topic}-new\n"
    assert f"creating topic {topic}: " in rejected.err


def test_more_replicas_than_brokers_are_rejected(headrace: Headrace, name: str) -> None:
    rejected = headrace("topic", "create", name, "--replication-factor", "3", code=1)

    assert f"creating topic {name}: " in rejected.err
    assert name not in headrace("topic", "list").out


def test_durations_and_sizes_have_units(headrace: Headrace, name: str) -> None:
    headrace("topic", "create", name, "-c", "retention.ms=1h", "-c", "segment.bytes=64MB")
    headrace("topic", "alter", name, "-c", "retention.bytes=1.5GiB")

    described = json.loads(headrace("topic", "describe", name, "--format", "json").out)["configs"]
    assert described["retention.ms"] == "3600000"
    assert described["segment.bytes"] == "64000000"
    assert described["retention.bytes"] == "1610612736"


def test_mistyped_config_is_rejected_with_the_nearest_name(headrace: Headrace, topic: str) -> None:
    wrong = ("--config", "retention.mss=5")
    for rejected in (
        headrace("topic", "create", f"{topic}-new", *wrong, code=1),
        headrace("topic", "alter", topic, *wrong, code=1),
    ):
        assert (
            rejected.err == "headrace: there is no config retention.mss\n  hint: did you mean retention.ms?\n"
        )


def test_mistyped_topic_is_rejected_with_the_nearest_name(headrace: Headrace, topic: str) -> None:
    mistyped = topic.replace("cli", "cil")
    for command in (["describe"], ["alter", "--partitions", "3"], ["delete", "--yes"]):
        rejected = headrace("topic", command[0], mistyped, *command[1:], code=1)
        assert rejected.err == f"headrace: there is no topic {mistyped}\n  hint: did you mean {topic}?\n"
