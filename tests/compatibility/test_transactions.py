"""Transactions of real clients: confluent-kafka in the old way, Java 4.3 in that of KIP-890, Kafka's tools."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from headrace.testing.java import JavaTools
from tests.compatibility.brokers import BrokerUnderTest
from tests.compatibility.conftest import CreateTopic
from tests.compatibility.java_programs import (
    DUMP_LOG_SEGMENTS,
    TRANSACTIONAL_MESSAGE_COPIER,
    TRANSACTIONS_COMMAND,
    run,
)
from tests.compatibility.topic_contents import PATIENCE_S, write_values


def transactional(bootstrap: str, transactional_id: str, **options: object) -> Producer:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0, **options}
    )
    producer.init_transactions(PATIENCE_S)
    return producer


@contextmanager
def consumer(bootstrap: str, group: str, topic: str, **options: object) -> Iterator[Consumer]:
    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **options,
        }
    )
    made.subscribe([topic])
    try:
        yield made
    finally:
        made.close()


def read(reader: Consumer, count: int) -> list[str]:
    found: list[str] = []
    deadline_s = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < deadline_s, found
        message = reader.poll(0.1)
        if message is not None and message.error() is None:
            found.append((message.value() or b"").decode())
    return found


def write_all(producer: Producer, topic: str, *values: str) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value)


def test_committed_transactions_are_read_and_aborted_ones_are_not(
    bootstrap: str, topic: str, name: str
) -> None:
    producer = transactional(bootstrap, name)
    write_all(producer, topic, "a", "b")
    producer.commit_transaction(PATIENCE_S)
    write_all(producer, topic, "never")
    producer.flush(PATIENCE_S)
    producer.abort_transaction(PATIENCE_S)
    write_all(producer, topic, "c")
    producer.commit_transaction(PATIENCE_S)
    with consumer(bootstrap, name, topic) as reader:
        assert read(reader, 3) == ["a", "b", "c"]
    with consumer(bootstrap, name + "-all", topic, **{"isolation.level": "read_uncommitted"}) as reader:
        assert read(reader, 4) == ["a", "b", "never", "c"]


def test_consume_transform_produce_moves_each_record_exactly_once(
    bootstrap: str, create_topic: CreateTopic, name: str
) -> None:
    source, target = create_topic(suffix="-in"), create_topic(suffix="-out")
    write_values(bootstrap, source, (str(n).encode() for n in range(30)))
    producer = transactional(bootstrap, name)
    with consumer(bootstrap, name, source) as reader:
        for turn in range(4):
            moved = read(reader, 10)
            producer.begin_transaction()
            for value in moved:
                producer.produce(target, f"{value}!")
            positions = reader.position(reader.assignment())
            producer.send_offsets_to_transaction(positions, reader.consumer_group_metadata(), PATIENCE_S)
            if turn == 1:  # the second ten fail once, and are read again
                producer.abort_transaction(PATIENCE_S)
                for position in reader.committed(reader.assignment(), timeout=PATIENCE_S):
                    reader.seek(position)
                continue
            producer.commit_transaction(PATIENCE_S)
        committed = reader.committed([TopicPartition(source, 0)], timeout=PATIENCE_S)
        assert [position.offset for position in committed] == [30]
    with consumer(bootstrap, name + "-check", target) as reader:
        assert read(reader, 30) == [f"{n}!" for n in range(30)]


def test_second_instance_fences_the_first_and_aborts_its_open_transaction(
    bootstrap: str, topic: str, name: str
) -> None:
    first = transactional(bootstrap, name)
    write_all(first, topic, "left open")
    first.flush(PATIENCE_S)
    second = transactional(bootstrap, name)
    with pytest.raises(KafkaException) as rejected:
        first.commit_transaction(PATIENCE_S)
    assert rejected.value.args[0].fatal()
    write_all(second, topic, "done")
    second.commit_transaction(PATIENCE_S)
    with consumer(bootstrap, name, topic) as reader:
        assert read(reader, 1) == ["done"]


def test_transaction_over_its_timeout_is_aborted(bootstrap: str, topic: str, name: str) -> None:
    slow = transactional(bootstrap, name, **{"transaction.timeout.ms": 1000, "message.timeout.ms": 1000})
    write_all(slow, topic, "too late")
    slow.flush(PATIENCE_S)
    other = transactional(bootstrap, name + "-other")
    write_all(other, topic, "in time")
    other.commit_transaction(PATIENCE_S)
    with consumer(bootstrap, name, topic) as reader:
        assert read(reader, 1) == ["in time"]
    with pytest.raises(KafkaException):
        slow.commit_transaction(PATIENCE_S)


@pytest.mark.parametrize("java_tools", ["4.3"], indirect=True)
def test_java_copies_a_topic_exactly_once_with_random_aborts(
    java_tools: JavaTools, bootstrap: str, create_topic: CreateTopic, name: str
) -> None:
    source, target = create_topic(suffix="-in"), create_topic(suffix="-out", partitions=2)
    write_values(bootstrap, source, (str(n).encode() for n in range(300)))
    run(
        java_tools,
        *(TRANSACTIONAL_MESSAGE_COPIER, "--broker-list", bootstrap, "--transactional-id", name),
        *("--input-topic", source, "--input-partition", "0", "--output-topic", target),
        *("--consumer-group", name, "--max-messages", "300", "--transaction-size", "20"),
        *("--enable-random-aborts", "--group-mode", "--use-group-metadata"),
    )
    with consumer(bootstrap, name + "-check", target) as reader:
        assert sorted(map(int, read(reader, 300))) == list(range(300))


def test_kafkas_tool_lists_describes_and_aborts_transactions(
    tools_4_3: JavaTools, bootstrap: str, topic: str, name: str
) -> None:
    def run_tool(*arguments: str) -> list[dict[str, str]]:
        lines = run(tools_4_3, TRANSACTIONS_COMMAND, "--bootstrap-server", bootstrap, *arguments).splitlines()
        rows = [[cell.strip() for cell in line.split("\t")] for line in lines if line.strip()]
        return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]

    producer = transactional(bootstrap, name)
    write_all(producer, topic, "a")
    producer.flush(PATIENCE_S)
    (listed,) = [row for row in run_tool("list") if row["TransactionalId"] == name]
    assert listed["TransactionState"] == "Ongoing"
    (described,) = run_tool("describe", "--transactional-id", name)
    assert (described["TransactionState"], described["TopicPartitions"]) == ("Ongoing", f"{topic}-0")
    (writing,) = run_tool("describe-producers", "--topic", topic, "--partition", "0")
    assert writing["CurrentTransactionStartOffset"] == "0"
    assert writing["ProducerId"] == described["ProducerId"]
    run_tool("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    (writing,) = run_tool("describe-producers", "--topic", topic, "--partition", "0")
    assert writing["CurrentTransactionStartOffset"] == "None"


def test_kafkas_tool_reads_markers_and_the_log_of_transactions(
    tools_4_3: JavaTools, broker: BrokerUnderTest, topic: str, name: str
) -> None:
    if broker.kind != "headrace":
        pytest.skip("Kafka knows its own files")
    producer = transactional(broker.bootstrap, name)
    write_all(producer, topic, "a")
    producer.commit_transaction(PATIENCE_S)

    def dump(folder: str, *options: str) -> str:
        (segment,) = (broker.data_dir / folder).glob("*.log")
        return run(tools_4_3, DUMP_LOG_SEGMENTS, "--files", str(segment), *options)

    assert "endTxnMarker: COMMIT" in dump(f"{topic}-0", "--print-data-log")
    states = dump("__transaction_state-0", "--transaction-log-decoder")
    mine = [line for line in states.splitlines() if name in line]
    assert len(mine) >= 4
    assert '"transactionStatus":4' in mine[-1], "committed"
