"""Share groups as real clients use them: confluent-kafka's ShareConsumer, Kafka's own share consumers and commands."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from headrace.testing.java import JavaTools
from tests.compatibility.brokers import BrokerUnderTest
from tests.compatibility.conftest import CreateTopic
from tests.compatibility.java_programs import CONFIG_COMMAND, DUMP_LOG_SEGMENTS, events, run
from tests.compatibility.topic_contents import PATIENCE_S, write_values

_TOOLS = "org.apache.kafka.tools"
SHARE_GROUP_COMMAND = f"{_TOOLS}.consumer.group.ShareGroupCommand"
SHARE_CONSUMER_PERFORMANCE = f"{_TOOLS}.ShareConsumerPerformance"
VERIFIABLE_SHARE_CONSUMER = f"{_TOOLS}.VerifiableShareConsumer"
CONSOLE_SHARE_CONSUMER = f"{_TOOLS}.consumer.ConsoleShareConsumer"


def set_configs(admin: AdminClient, group: str, **configs: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in configs.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(timeout=PATIENCE_S)


def become_visible(admin: AdminClient, group: str, name: str, value: str) -> None:
    """Apache Kafka's nodes learn of a change a moment later."""
    resource = ConfigResource(ResourceType.GROUP, group)
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        found = admin.describe_configs([resource])[resource].result(timeout=PATIENCE_S)
        if name in found and found[name].value == value:
            return
        assert time.monotonic() < deadline_s, f"{name} never became {value}"
        time.sleep(0.05)


@pytest.fixture
def group(admin: AdminClient, name: str) -> str:
    """A group that starts at the first record."""
    made = f"g-{name}"
    set_configs(admin, made, share_auto_offset_reset="earliest")
    become_visible(admin, made, "share.auto.offset.reset", "earliest")
    return made


@contextmanager
def share_consumer(bootstrap: str, group: str, topic: str, **settings: Any) -> Iterator[ShareConsumer]:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            **{setting.replace("_", "."): value for setting, value in settings.items()},
        }
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def poll(consumer: ShareConsumer) -> list[Any]:
    """The next messages."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        messages = [*consumer.poll(0.5)]
        if messages:
            assert all(message.error() is None for message in messages)
            return messages
    raise AssertionError("no message was delivered")


def acknowledge(consumer: ShareConsumer, messages: list[Any], how: AcknowledgeType) -> None:
    for message in messages:
        consumer.acknowledge(message, how)
    outcome = consumer.commit_sync()
    assert outcome
    assert all(error is None for error in outcome.values()), outcome


def consume(consumer: ShareConsumer, count: int) -> list[bytes]:
    """Accept this many messages."""
    values: list[bytes] = []
    while len(values) < count:
        messages = poll(consumer)
        values += [message.value() for message in messages]
        acknowledge(consumer, messages, AcknowledgeType.ACCEPT)
    return values


def test_every_message_is_delivered_to_one_of_two_consumers(
    bootstrap: str, create_topic: CreateTopic, group: str
) -> None:
    topic = create_topic(partitions=2)
    sent = [str(number).encode() for number in range(400)]
    with (
        share_consumer(bootstrap, group, topic) as first,
        share_consumer(bootstrap, group, topic) as second,
    ):
        write_values(bootstrap, topic, sent)
        seen: Counter[bytes] = Counter()
        deadline_s = time.monotonic() + PATIENCE_S
        while sum(seen.values()) < len(sent) and time.monotonic() < deadline_s:
            for consumer in (first, second):
                messages = [*consumer.poll(0.1)]
                if messages:
                    seen.update(message.value() for message in messages)
                    acknowledge(consumer, messages, AcknowledgeType.ACCEPT)
        assert seen == Counter(sent)


def test_released_message_is_redelivered_and_an_accepted_one_is_not(
    bootstrap: str, topic: str, group: str
) -> None:
    write_values(bootstrap, topic, [b"a", b"b", b"c"])
    with share_consumer(bootstrap, group, topic) as consumer:
        messages = poll(consumer)
        while len(messages) < 3:
            messages += poll(consumer)
        for message in messages:
            how = AcknowledgeType.RELEASE if message.value() == b"b" else AcknowledgeType.ACCEPT
            consumer.acknowledge(message, how)
        assert all(error is None for error in consumer.commit_sync().values())
        assert consume(consumer, 1) == [b"b"]


def test_rejected_message_is_not_redelivered(bootstrap: str, topic: str, group: str) -> None:
    write_values(bootstrap, topic, [b"bad"])
    with share_consumer(bootstrap, group, topic) as consumer:
        acknowledge(consumer, poll(consumer), AcknowledgeType.REJECT)
        write_values(bootstrap, topic, [b"good"])
        assert consume(consumer, 1) == [b"good"]


def test_messages_of_a_closed_consumer_are_redelivered(bootstrap: str, topic: str, group: str) -> None:
    write_values(bootstrap, topic, [b"a"])
    with share_consumer(bootstrap, group, topic) as consumer:
        assert poll(consumer)[0].value() == b"a"
    with share_consumer(bootstrap, group, topic) as consumer:
        assert consume(consumer, 1) == [b"a"]


def test_implicit_acknowledgement_accepts_with_the_next_poll(bootstrap: str, topic: str, group: str) -> None:
    write_values(bootstrap, topic, [str(number).encode() for number in range(50)])
    with share_consumer(bootstrap, group, topic, share_acknowledgement_mode="implicit") as consumer:
        seen: list[bytes] = []
        while len(seen) < 50:
            seen += [message.value() for message in poll(consumer)]
        assert [*consumer.poll(0.5)] == []
    with share_consumer(bootstrap, group, topic) as consumer:
        write_values(bootstrap, topic, [b"new"])
        assert consume(consumer, 1) == [b"new"]
    assert sorted(seen, key=int) == [str(number).encode() for number in range(50)]


def test_read_committed_skips_open_and_aborted_transactions(
    bootstrap: str, admin: AdminClient, topic: str, group: str
) -> None:
    set_configs(admin, group, share_isolation_level="read_committed")
    become_visible(admin, group, "share.isolation.level", "read_committed")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(PATIENCE_S)
    for number, is_committed in enumerate((False, True, False, True)):
        producer.begin_transaction()
        for letter in b"ab":
            producer.produce(topic, bytes([letter, ord("0") + number]))
        producer.flush(PATIENCE_S)
        if is_committed:
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.abort_transaction(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(PATIENCE_S)
    with share_consumer(bootstrap, group, topic) as consumer:
        assert sorted(consume(consumer, 4)) == [b"a1", b"a3", b"b1", b"b3"]
        assert [*consumer.poll(0.3)] == []
        producer.commit_transaction(PATIENCE_S)
        assert consume(consumer, 1) == [b"open"]


def test_java_share_consumer_consumes_all_records_and_its_group_is_described(
    bootstrap: str, topic: str, group: str, tools_4_3: JavaTools
) -> None:
    write_values(bootstrap, topic, [str(number).encode() for number in range(200)])
    output = run(
        tools_4_3,
        VERIFIABLE_SHARE_CONSUMER,
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group),
        *("--max-messages", "200", "--offset-reset-strategy", "earliest"),
    )
    printed = events(output)
    assert sum(event["count"] for event in printed if event["name"] == "records_consumed") == 200
    assert sum(event["count"] for event in printed if event["name"] == "offsets_acknowledged") == 200
    described = run(
        tools_4_3, SHARE_GROUP_COMMAND, "--bootstrap-server", bootstrap, "--describe", "--group", group
    )
    described_group, described_topic, partition, _, lag = described.split()[-5:]
    assert (described_group, described_topic, partition, lag) == (group, topic, "0", "0")


def test_commands_list_reset_and_delete_share_groups(
    bootstrap: str, topic: str, group: str, tools_4_3: JavaTools
) -> None:
    write_values(bootstrap, topic, [b"a", b"b"])
    with share_consumer(bootstrap, group, topic) as consumer:
        consume(consumer, 2)
    address = ("--bootstrap-server", bootstrap)
    assert group in run(tools_4_3, SHARE_GROUP_COMMAND, *address, "--list").split()
    reset = ("--reset-offsets", "--to-earliest", "--group", group, "--topic", topic, "--execute")
    assert run(tools_4_3, SHARE_GROUP_COMMAND, *address, *reset).split()[-4:] == [group, topic, "0", "0"]
    with share_consumer(bootstrap, group, topic) as consumer:
        assert sorted(consume(consumer, 2)) == [b"a", b"b"]
    forget = ("--delete-offsets", "--group", group, "--topic", topic)
    assert "Successful" in run(tools_4_3, SHARE_GROUP_COMMAND, *address, *forget)
    assert "successful" in run(tools_4_3, SHARE_GROUP_COMMAND, *address, "--delete", "--group", group)


def test_console_and_performance_consumers(
    bootstrap: str, topic: str, group: str, tools_4_3: JavaTools
) -> None:
    write_values(bootstrap, topic, [b"x" * 100] * 2000)
    output = run(
        tools_4_3,
        SHARE_CONSUMER_PERFORMANCE,
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
        *("--num-records", "2000", "--timeout", "20000"),
    )
    assert int(output.splitlines()[-1].split(",")[5]) >= 2000
    write_values(bootstrap, topic, [b"to the console"])
    output = run(
        tools_4_3,
        CONSOLE_SHARE_CONSUMER,
        *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group, "--max-messages", "1"),
        *("--timeout-ms", "20000"),
    )
    assert output.splitlines()[0] == "to the console"


def test_config_command_sets_and_shows_configs_of_a_group(
    bootstrap: str, group: str, tools_4_3: JavaTools
) -> None:
    entity = ("--bootstrap-server", bootstrap, "--entity-type", "groups", "--entity-name", group)
    run(tools_4_3, CONFIG_COMMAND, *entity, "--alter", "--add-config", "share.record.lock.duration.ms=20000")
    shown = run(tools_4_3, CONFIG_COMMAND, *entity, "--describe")
    assert "share.record.lock.duration.ms=20000" in shown
    assert "share.auto.offset.reset=earliest" in shown


def test_kafkas_tool_reads_the_states(
    broker: BrokerUnderTest, topic: str, group: str, tools_4_3: JavaTools
) -> None:
    """Accepted records are in `__share_group_state` in a form that Kafka's own tool decodes."""
    write_values(broker.bootstrap, topic, [b"a", b"b", b"c"])
    with share_consumer(broker.bootstrap, group, topic) as consumer:
        consume(consumer, 3)
    folders = broker.data_dir.glob("__share_group_state-*")
    files = ",".join(str(file) for folder in folders for file in folder.glob("*.log"))
    dumped = run(tools_4_3, DUMP_LOG_SEGMENTS, "--files", files, "--share-group-state-decoder")
    lines = [line for line in dumped.splitlines() if f'"groupId":"{group}"' in line]
    assert lines
    # Apache Kafka advances the start offset later, and meanwhile counts the acknowledged records after it.
    assert '"startOffset":3' in lines[-1] or '"deliveryCompleteCount":3' in lines[-1]
