"""Whole batches in transactions. What readers find in them is tested with `cdc.row_writer`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from headrace.kafka.bulk_producer import IN_FLIGHT_MAX, BulkProducer
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed
from headrace.protocol.error_codes import ErrorCode
from headrace.records.compression import Codec, compress
from headrace.records.record import Record, encode_record
from tests.cdc.conftest import committed_records

OpenProducer = Callable[[str], BulkProducer]


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"bulk-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, partitions=2, config={})
    return name


@pytest.fixture
def open_producer(cluster: Cluster) -> Iterator[OpenProducer]:
    opened: list[BulkProducer] = []

    def open_one(name: str) -> BulkProducer:
        opened.append(BulkProducer(cluster, name, transaction_timeout_ms=60_000, timeout_s=30))
        return opened[-1]

    yield open_one
    for producer in opened:
        producer.close()


def batch(number: int) -> bytes:
    record = Record(key=b"%d" % number, value=b"{}", timestamp_ms=0, offset=0)
    return compress(Codec.LZ4, encode_record(record, timestamp_delta_ms=0, offset_delta=0))


def send(producer: BulkProducer, topic: str, partition: int, number: int) -> None:
    producer.send(topic, partition, 1, batch(number), codec="lz4", timestamp_ms=1_000)


def keys(bootstrap: str, topic: str) -> list[int]:
    return sorted(key for key, _ in committed_records(bootstrap, topic))


def test_more_batches_than_may_be_in_flight_are_committed_in_order(
    open_producer: OpenProducer, topic: str, bootstrap: str
) -> None:
    producer = open_producer(topic)
    assert producer.partitions(topic) == 2
    for _ in range(2):
        for number in range(3 * IN_FLIGHT_MAX):
            send(producer, topic, number % 2, number)
        producer.commit()
    assert keys(bootstrap, topic) == sorted([*range(3 * IN_FLIGHT_MAX)] * 2)


def test_commit_of_nothing_succeeds(open_producer: OpenProducer, topic: str) -> None:
    open_producer(topic).commit()


def test_next_producer_aborts_what_is_open_and_fences_the_one_before(
    open_producer: OpenProducer, topic: str, bootstrap: str
) -> None:
    first = open_producer(topic)
    send(first, topic, 0, 1)
    second = open_producer(topic)
    with pytest.raises(RequestFailed) as fenced:
        first.commit()
    assert fenced.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
    send(second, topic, 0, 2)
    second.commit()
    assert keys(bootstrap, topic) == [2]


def test_batch_that_the_topic_does_not_take_is_an_error_with_its_code(
    open_producer: OpenProducer, cluster: Cluster
) -> None:
    name = f"bulk-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, partitions=1, config={"max.message.bytes": "60"})
    producer = open_producer(name)
    send(producer, name, 0, 1)
    with pytest.raises(RequestFailed, match=f"writing to {name}: MESSAGE_TOO_LARGE") as rejected:
        producer.commit()
    assert rejected.value.code == ErrorCode.MESSAGE_TOO_LARGE
