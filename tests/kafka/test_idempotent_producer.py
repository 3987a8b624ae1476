"""Whole batches without a transaction: each is stored once and in order, or given back."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from headrace.kafka.bulk_producer import IN_FLIGHT_MAX
from headrace.kafka.cluster import Cluster
from headrace.kafka.idempotent_producer import Batch, IdempotentProducer
from headrace.records.record import Record, encode_record
from tests.cdc.conftest import committed_records
from tests.faults.broker_process import BrokerProcess


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"batches-{uuid.uuid4().hex[:8]}"
    cluster.create_topic(name, partitions=2, config={"max.message.bytes": "10000"})
    return name


def batch(number: int, *, partition: int = 0, size: int = 2) -> Batch[int]:
    record = Record(key=b"%d" % number, value=b"1" * size, timestamp_ms=0, offset=0)
    return Batch(
        partition=partition,
        count=1,
        records=encode_record(record, timestamp_delta_ms=0, offset_delta=0),
        timestamp_ms=1_000,
        origin=number,
    )


def keys(bootstrap: str, topic: str) -> list[int]:
    return [int(key) for key, _ in committed_records(bootstrap, topic)]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_more_batches_than_may_be_in_flight_are_stored_in_order(
    cluster: Cluster, topic: str, bootstrap: str, codec: str
) -> None:
    producer: IdempotentProducer[int] = IdempotentProducer(cluster, topic, timeout_s=30, codec=codec)
    assert producer.partitions == 2
    assert all(producer.send(batch(number)) for number in range(4 * IN_FLIGHT_MAX))

    assert producer.drain() == []
    assert producer.stored_count == 4 * IN_FLIGHT_MAX
    assert keys(bootstrap, topic) == [*range(4 * IN_FLIGHT_MAX)]
    producer.close()


def test_rejected_batch_comes_back_with_those_behind_it(cluster: Cluster, topic: str, bootstrap: str) -> None:
    producer: IdempotentProducer[int] = IdempotentProducer(cluster, topic, timeout_s=30)
    for number in (0, 1):
        producer.send(batch(number))
    producer.send(batch(2, size=20_000))
    producer.send(batch(3))
    producer.send(batch(4, partition=1))

    assert [each.origin for each in producer.drain()] == [2, 3]
    assert not producer.send(batch(5))
    assert sorted(keys(bootstrap, topic)) == [0, 1, 4]
    producer.close()


def test_no_batch_passes_the_first_one_if_that_is_rejected(
    cluster: Cluster, topic: str, bootstrap: str
) -> None:
    producer: IdempotentProducer[int] = IdempotentProducer(cluster, topic, timeout_s=30)
    producer.send(batch(0, size=20_000))
    assert producer.send(batch(1))

    assert [each.origin for each in producer.drain()] == [0, 1]
    assert keys(bootstrap, topic) == []
    producer.close()


def test_batches_in_flight_when_the_broker_is_killed_are_stored_once(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "broker", default_partitions=1)
    with broker:
        cluster = Cluster(broker.bootstrap, timeout_s=30)
        cluster.create_topic("batches", partitions=1)
        producer: IdempotentProducer[int] = IdempotentProducer(cluster, "batches", timeout_s=60)
        for number in range(100):
            producer.send(batch(number))
            if number % 30 == 29:
                broker.kill()
                broker.start()
        assert producer.drain() == []
        producer.close()
        assert keys(broker.bootstrap, "batches") == [*range(100)]
