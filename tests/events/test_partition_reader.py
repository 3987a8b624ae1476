from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headrace.events import EventsError, StoreUnavailable
from headrace.events.partition_reader import PartitionReader
from headrace.kafka.cluster import Cluster, Partition

TIMEOUT_S = 30.0


@pytest.fixture
def reader(cluster: Cluster) -> Iterator[PartitionReader]:
    reader = PartitionReader(cluster.client_config(), timeout_s=TIMEOUT_S)
    yield reader
    reader.close()


@pytest.fixture
def producer(cluster: Cluster, topic: str) -> Producer:
    cluster.create_topic(topic, partitions=2)
    producer = Producer(cluster.client_config(transactional_id=topic))
    producer.init_transactions(TIMEOUT_S)
    return producer


def write(producer: Producer, topic: str, values: range, *, commit: bool = True, partition: int = 0) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, str(value), partition=partition, headers=[("n", str(value).encode())])
    producer.flush(TIMEOUT_S)
    (producer.commit_transaction if commit else producer.abort_transaction)(TIMEOUT_S)


def values_of(reader: PartitionReader, topic: str, first: int, end: int) -> list[int]:
    return [int(each.value or b"") for each in reader.read({Partition(topic, 0): (first, end)})]


def test_committed_records_of_the_range_are_read(
    producer: Producer, reader: PartitionReader, topic: str
) -> None:
    write(producer, topic, range(3))
    write(producer, topic, range(3, 5), commit=False)
    write(producer, topic, range(5, 7))
    # 3 records, marker, 2 aborted ones, marker, 2 records, marker
    assert values_of(reader, topic, 0, 10) == [0, 1, 2, 5, 6]
    assert values_of(reader, topic, 1, 3) == [1, 2]
    assert values_of(reader, topic, 3, 7) == []
    assert values_of(reader, topic, 10, 10) == []


def test_several_partitions_are_read_together(
    producer: Producer, reader: PartitionReader, topic: str
) -> None:
    write(producer, topic, range(3))
    write(producer, topic, range(3, 5), partition=1)
    found = list(reader.read({Partition(topic, 0): (0, 4), Partition(topic, 1): (0, 3)}))
    assert sorted((each.partition, each.offset, each.value) for each in found) == [
        (0, 0, b"0"),
        (0, 1, b"1"),
        (0, 2, b"2"),
        (1, 0, b"3"),
        (1, 1, b"4"),
    ]
    assert {each.headers["n"] == each.value for each in found} == {True}


def test_open_transaction_below_the_end_is_an_error_in_the_end(
    producer: Producer, cluster: Cluster, topic: str
) -> None:
    write(producer, topic, range(3))
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0)
    producer.flush(TIMEOUT_S)
    reader = PartitionReader(cluster.client_config(), timeout_s=0.5)
    with pytest.raises(StoreUnavailable, match="can't be read to the end"):
        values_of(reader, topic, 0, 5)
    reader.close()
    producer.abort_transaction(TIMEOUT_S)


def test_deleted_start_is_an_error(
    producer: Producer, reader: PartitionReader, cluster: Cluster, topic: str
) -> None:
    write(producer, topic, range(3))
    cluster.delete_records({Partition(topic, 0): 2})
    with pytest.raises(EventsError, match="are deleted"):
        values_of(reader, topic, 0, 3)
