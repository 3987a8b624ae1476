"""`headrace group` on a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.cli.conftest import Headrace, next_line, started


def partitions_of(headrace: Headrace, group: str) -> dict[int, dict[str, object]]:
    described = json.loads(headrace("group", "describe", group, "--format", "json").out)
    return {each["partition"]: each for each in described["partitions"]}


@pytest.fixture
def group(admin: AdminClient, producer: Producer, numbers: str) -> str:
    """A group that has read ten records of partition 0, with three more there."""
    name = f"{numbers}-group"
    committed = ConsumerGroupTopicPartitions(
        name, [TopicPartition(numbers, 0, 10), TopicPartition(numbers, 1, 0)]
    )
    admin.alter_consumer_group_offsets([committed])[name].result(timeout=60)
    for number in (10, 11, 12):
        producer.produce(numbers, str(number), partition=0)
    assert producer.flush(60) == 0
    return name


def test_group_is_listed_and_its_lag_shown(headrace: Headrace, group: str) -> None:
    listed = {
        each["group"]: each["state"] for each in json.loads(headrace("group", "list", "--format", "json").out)
    }

    assert listed[group] == "empty"
    partition = partitions_of(headrace, group)[0]
    assert (partition["committed"], partition["end"], partition["lag"]) == (10, 13, 3)
    assert "0 members" in headrace("group", "describe", group).out


def test_partition_without_a_commit_lags_by_all_its_records(
    headrace: Headrace, admin: AdminClient, producer: Producer, numbers: str
) -> None:
    producer.produce(numbers, "x", partition=1)
    assert producer.flush(60) == 0
    name = f"{numbers}-half"
    committed = ConsumerGroupTopicPartitions(name, [TopicPartition(numbers, 0, 4)])
    admin.alter_consumer_group_offsets([committed])[name].result(timeout=60)

    shown = partitions_of(headrace, name)
    assert [(one["committed"], one["lag"]) for one in shown.values()][:2] == [(4, 6), (None, 1)]


def test_unknown_group_is_an_error(headrace: Headrace, name: str) -> None:
    assert f"there is no group {name}" in headrace("group", "describe", name, code=1).err


@pytest.mark.parametrize(
    ("target", "offset"),
    [
        (["--to-earliest"], 0),
        (["--to-latest"], 13),
        (["--to-offset", "4"], 4),
        (["--to-offset", "999"], 13),
        (["--to-time", "0"], 0),
        (["--to-time", "2099-01-01T00:00:00Z"], 13),
        (["--by-duration", "PT1H"], 0),
        (["--by-duration", "0s"], 13),
    ],
)
def test_reset_moves_the_group(
    headrace: Headrace, topic: str, group: str, target: list[str], offset: int
) -> None:
    headrace("group", "reset", group, "--topic", f"{topic}:0", *target)

    assert partitions_of(headrace, group)[0]["committed"] == offset


def test_moved_group_reads_from_its_new_position(headrace: Headrace, topic: str, group: str) -> None:
    headrace("group", "reset", group, "--all-topics", "--to-offset", "11")

    assert headrace("consume", topic, "--group", group).lines == ["11", "12"]


def test_dry_run_shows_the_change_and_commits_nothing(headrace: Headrace, topic: str, group: str) -> None:
    shown = headrace("group", "reset", group, "--topic", f"{topic}:0", "--to-earliest", "--dry-run")

    assert [topic, "0", "10", "0"] in [line.split() for line in shown.lines]
    assert "nothing was changed" in shown.err
    assert partitions_of(headrace, group)[0]["committed"] == 10


def test_reset_of_one_partition_leaves_the_others(headrace: Headrace, topic: str, group: str) -> None:
    headrace("produce", topic, "--partition", "1", stdin="a\nb\n")
    headrace("consume", topic, "--group", group)
    headrace("group", "reset", group, "--topic", f"{topic}:1", "--to-earliest")

    assert partitions_of(headrace, group)[0]["committed"] == 13
    assert partitions_of(headrace, group)[1]["committed"] == 0


def test_reset_wants_one_target_and_topics(headrace: Headrace, topic: str, group: str) -> None:
    assert "give one of --to-earliest" in headrace("group", "reset", group, "--all-topics", code=2).err
    both = headrace("group", "reset", group, "--all-topics", "--to-latest", "--to-earliest", code=2)
    assert "give one of --to-earliest" in both.err
    assert "give the topics" in headrace("group", "reset", group, "--to-latest", code=2).err
    wrong = headrace("group", "reset", group, "--topic", f"{topic}:7", "--to-latest", code=1)
    assert "no partition '7'" in wrong.err


def test_time_that_cannot_be_read_is_rejected(headrace: Headrace, group: str) -> None:
    rejected = headrace("group", "reset", group, "--all-topics", "--to-time", "yesterday", code=1)
    assert "'yesterday' is not a time" in rejected.err
    rejected = headrace("group", "reset", group, "--all-topics", "--by-duration", "soon", code=1)
    assert "'soon' is not a duration" in rejected.err


@pytest.fixture
def member(topic: str, group: str, environment: dict[str, str]) -> Iterator[None]:
    """A running consumer of the group, after its first record."""
    with started("consume", topic, "--group", group, "--follow", environment=environment) as process:
        assert next_line(process) == "10\n"
        yield


@pytest.mark.usefixtures("member")
def test_group_with_members_is_shown_with_them_and_neither_moved_nor_deleted(
    headrace: Headrace, group: str
) -> None:
    described = json.loads(headrace("group", "describe", group, "--format", "json").out)
    assert described["state"] == "stable"
    assert all(each["member"] for each in described["partitions"])
    assert "1 members" in headrace("group", "describe", group).out

    rejected = headrace("group", "reset", group, "--all-topics", "--to-earliest", code=1)
    assert "has 1 members" in rejected.err
    assert "stop" in headrace("group", "delete", group, "--yes", code=1).err


def test_deleted_group_is_not_listed(headrace: Headrace, group: str) -> None:
    assert "--yes" in headrace("group", "delete", group, code=1).err
    headrace("group", "delete", group, "--yes")
    assert group not in headrace("group", "list").out


def test_seek_shifts_by_a_number_of_records_within_the_partition(
    headrace: Headrace, numbers: str, name: str
) -> None:
    headrace("consume", numbers, "--group", name)
    where = ("--topic", f"{numbers}:0", "--format", "json")

    def shift(by: str) -> list[dict[str, object]]:
        moved: list[dict[str, object]] = json.loads(
            headrace("group", "seek", name, *where, "--shift-by", by).out
        )
        return moved

    place = {"topic": numbers, "partition": 0}
    assert shift("-3") == [{**place, "before": 10, "after": 7}]
    assert headrace("consume", numbers, "--group", name).lines == ["7", "8", "9"]
    assert shift("-100") == [{**place, "before": 10, "after": 0}]
    assert shift("100") == [{**place, "before": 0, "after": 10}]


def test_seek_takes_a_duration_for_a_time(headrace: Headrace, numbers: str, name: str) -> None:
    headrace("consume", numbers, "--group", name)

    headrace("group", "seek", name, "--topic", numbers, "--to-time", "1h")

    assert headrace("consume", numbers, "--group", name).lines == [*"0123456789"]


def test_internal_groups_are_listed_only_with_internal(headrace: Headrace, numbers: str, name: str) -> None:
    internal, job = f"headrace-sink:{name}", f"headrace-job-{name}"
    for each in (internal, job):
        headrace("group", "seek", each, "--topic", numbers, "--to-earliest")

    plain = [each["group"] for each in json.loads(headrace("group", "list", "--format", "json").out)]
    everything = [
        each["group"] for each in json.loads(headrace("group", "list", "--internal", "--format", "json").out)
    ]

    assert job in plain
    assert internal not in plain
    assert {job, internal} <= {*everything}


def test_mistyped_group_is_rejected_with_the_nearest_name(
    headrace: Headrace, numbers: str, name: str
) -> None:
    headrace("consume", numbers, "--group", name)
    mistyped = name.replace("cli", "cil")

    rejected = headrace("group", "describe", mistyped, code=1)

    assert rejected.err == f"headrace: there is no group {mistyped}\n  hint: did you mean {name}?\n"
