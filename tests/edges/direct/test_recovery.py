from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headrace.edges.direct.gaps import Gap
from headrace.edges.direct.numbering import streams_of
from headrace.edges.direct.recovery import SLICE, Recovery, Slice, Unavailable
from headrace.kafka.cluster import Cluster, Partition
from tests.edges.direct.conftest import numbers, write_in_transactions


@pytest.fixture
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=30)


@pytest.fixture
def recovery(cluster: Cluster, topic: str) -> Iterator[Recovery]:
    with contextlib.closing(Recovery(cluster, topic)) as recovery:
        yield recovery


@pytest.fixture
def stream(cluster: Cluster, topic: str) -> int:
    (stream,) = streams_of(cluster, topic).values()
    return stream


def write(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(60) == 0


def events(slices: list[Slice]) -> list[int]:
    return [number for each in slices for number in numbers(each.events)]


def test_gap_is_read_from_the_topic_in_order_and_in_bounded_slices(
    bootstrap: str, topic: str, recovery: Recovery, stream: int
) -> None:
    write(bootstrap, topic, 3_000)
    found = [*recovery.read(stream, Gap(5, 2_900))]
    assert events(found) == [*range(5, 2_900)]
    assert max(len(each.events) for each in found) <= SLICE + 1
    assert found[-1].next == 2_900
    # The connection is kept for the next gap.
    assert events([*recovery.read(stream, Gap(0, 3))]) == [0, 1, 2]


def test_what_retention_has_deleted_is_accounted_for(
    bootstrap: str, cluster: Cluster, topic: str, recovery: Recovery, stream: int
) -> None:
    write(bootstrap, topic, 10)
    cluster.delete_records({Partition(topic, 0): 4})
    found = [*recovery.read(stream, Gap(1, 6))]
    assert (events(found), sum(each.deleted for each in found), found[-1].next) == ([4, 5], 3, 6)
    found = [*recovery.read(stream, Gap(1, 3))]
    assert (events(found), sum(each.deleted for each in found), found[-1].next) == ([], 2, 3)


def test_markers_of_transactions_at_the_end_of_a_gap_are_accounted_for(
    bootstrap: str, topic: str, recovery: Recovery, stream: int
) -> None:
    write_in_transactions(bootstrap, topic)
    found = [*recovery.read(stream, Gap(0, 6))]
    assert (events(found), found[-1].next) == ([0, 4], 6)


def test_stream_of_another_topic_is_not_recovered(recovery: Recovery) -> None:
    assert [*recovery.read(12345, Gap(0, 3))] == []


def test_broker_that_is_unavailable_is_not_asked_for_each_gap() -> None:
    with contextlib.closing(Recovery(Cluster("127.0.0.1:1", timeout_s=1), "quotes")) as recovery:
        with pytest.raises(Unavailable, match="can't be read"):
            next(recovery.read(7, Gap(0, 3)))
        with pytest.raises(Unavailable, match="a moment ago"):
            next(recovery.read(7, Gap(3, 5)))
