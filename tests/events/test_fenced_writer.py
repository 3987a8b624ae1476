from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from headrace.events import InvalidEvent, StoreUnavailable
from headrace.events import fenced_writer as module
from headrace.events.fenced_writer import FencedWriter, GroupOffsets, WriterLost, transactional_id
from headrace.events.partition_reader import PartitionReader
from headrace.events.records import OutRecord
from headrace.kafka.cluster import Cluster, Partition
from headrace.testing.ports import free_ports

TIMEOUT_S = 30.0
OpenWriter = Callable[..., FencedWriter]


@pytest.fixture
def open_writer(cluster: Cluster, topic: str) -> Iterator[OpenWriter]:
    cluster.create_topic(topic, partitions=2, config={"max.message.bytes": "20000"})
    opened = []

    def open_writer(message_bytes_max: int = 20_000) -> FencedWriter:
        writer = FencedWriter(
            cluster.client_config(),
            topic=topic,
            partition=1,
            message_bytes_max=message_bytes_max,
            timeout_s=TIMEOUT_S,
        )
        opened.append(writer)
        return writer

    yield open_writer
    for writer in opened:
        writer.close()


@pytest.fixture
def committed(cluster: Cluster, topic: str) -> Callable[[], list[bytes | None]]:
    def committed() -> list[bytes | None]:
        partition = Partition(topic, 1)
        reader = PartitionReader(cluster.client_config(), timeout_s=TIMEOUT_S)
        found = [each.value for each in reader.read({partition: (0, cluster.latest([partition])[partition])})]
        reader.close()
        return found

    return committed


def record(topic: str, value: bytes, partition: int | None = None) -> OutRecord:
    return OutRecord(topic=topic, key=b"k", value=value, headers=(), timestamp_ms=1000, partition=partition)


def test_commit_returns_the_offsets(
    open_writer: OpenWriter, topic: str, committed: Callable[[], list[bytes | None]]
) -> None:
    writer = open_writer()
    assert writer.commit([record(topic, b"a"), record(topic, b"b")]) == [0, 1]
    assert writer.commit([record(topic, b"c"), record(topic, b"elsewhere", 0)]) == [3, 0]
    assert committed() == [b"a", b"b", b"c"]


def test_writer_is_fenced_by_the_next_one(
    open_writer: OpenWriter, topic: str, committed: Callable[[], list[bytes | None]]
) -> None:
    first = open_writer()
    first.commit([record(topic, b"a")])
    second = open_writer()
    with pytest.raises(WriterLost) as raised:
        first.commit([record(topic, b"zombie")])
    assert raised.value.is_fenced
    second.commit([record(topic, b"b")])
    assert committed() == [b"a", b"b"]


def test_record_that_is_too_large_is_rejected_before_it_is_sent(open_writer: OpenWriter, topic: str) -> None:
    writer = open_writer()
    with pytest.raises(InvalidEvent, match="and the topic takes 20,000"):
        writer.commit([record(topic, b"a"), record(topic, b"x" * 20_000)])
    assert open_writer().commit([record(topic, b"a")]) == [0]


def test_record_that_the_broker_rejects_aborts_all(
    open_writer: OpenWriter, topic: str, committed: Callable[[], list[bytes | None]]
) -> None:
    """The limit of the topic was lowered after the writer had read it."""
    writer = open_writer(message_bytes_max=100_000)
    with pytest.raises(InvalidEvent, match=r"max\.message\.bytes"):
        writer.commit([record(topic, b"a"), record(topic, b"x" * 30_000)])
    open_writer().commit([record(topic, b"b")])
    assert committed() == [b"b"]


def test_all_records_together_have_a_limit(
    open_writer: OpenWriter, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TRANSACTION_BYTES_MAX", 30_000)
    with pytest.raises(InvalidEvent, match="at most 30,000"):
        open_writer().commit([record(topic, b"x" * 15_000)] * 2)


def test_positions_of_a_group_are_committed_with_the_records(
    open_writer: OpenWriter, cluster: Cluster, topic: str
) -> None:
    consumer = Consumer(cluster.client_config(group_id=topic))
    positions = GroupOffsets(
        offsets=[TopicPartition(topic, 0, 7)], metadata=consumer.consumer_group_metadata()
    )
    open_writer().commit([record(topic, b"a")], positions)
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=TIMEOUT_S)
    consumer.close()
    assert found.offset == 7


def test_unknown_group_member_aborts_all(
    open_writer: OpenWriter, cluster: Cluster, topic: str, committed: Callable[[], list[bytes | None]]
) -> None:
    """As a worker that the group has removed, in the middle of a batch."""
    group = f"{topic}-group"
    stale = Consumer(cluster.client_config(group_id=group, auto_offset_reset="earliest"))
    stale.subscribe([topic])
    while not stale.assignment():
        stale.poll(0.1)
    metadata = stale.consumer_group_metadata()
    stale.close()
    with pytest.raises(StoreUnavailable):
        open_writer().commit(
            [record(topic, b"a")], GroupOffsets(offsets=[TopicPartition(topic, 0, 7)], metadata=metadata)
        )
    assert committed() == []


def test_missing_broker_is_an_error() -> None:
    (port,) = free_ports(1)
    with pytest.raises(StoreUnavailable, match="headrace-events-t-1 can't be opened"):
        FencedWriter(
            {"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0},
            topic="t",
            partition=1,
            message_bytes_max=1,
            timeout_s=0.5,
        )


def test_id_names_topic_and_partition() -> None:
    assert transactional_id("accounts", 3) == "headrace-events-accounts-3"
