from __future__ import annotations

import queue
from collections.abc import Callable, Sequence

import pytest

from headrace.errors import HeadraceError
from headrace.gateway.records import Record
from headrace.gateway.tail import BATCHES_MAX, Tail
from headrace.kafka.cluster import Cluster
from tests.gateway.conftest import NewTopic, Write

pytestmark = pytest.mark.timeout(120)


def test_topics_are_followed_from_their_offsets_until_they_are_removed(
    cluster: Cluster, new_topic: NewTopic, write: Write
) -> None:
    one, other = new_topic(1), new_topic(1)
    found: queue.SimpleQueue[tuple[str, bytes | None]] = queue.SimpleQueue()

    def take(records: Sequence[Record], taken: Callable[[], None]) -> None:
        for each in records:
            found.put((each.topic, each.value))
        taken()

    tail = Tail(cluster, on_records=take, on_failure=lambda _topic, _error: None)
    try:
        write(one, b"0", b"1", partition=0)
        tail.add(one, {0: 1})
        assert found.get(timeout=30) == (one, b"1")
        tail.remove(one)
        tail.add(other, {0: 0})
        write(other, b"2", partition=0)
        assert found.get(timeout=30) == (other, b"2")
        write(one, b"3", partition=0)
        write(other, b"4", partition=0)
        assert found.get(timeout=30) == (other, b"4")
    finally:
        tail.close()


def test_records_that_nobody_takes_stay_with_the_broker(
    cluster: Cluster, new_topic: NewTopic, write: Write
) -> None:
    topic = new_topic(1)
    batches: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    tail = Tail(cluster, on_records=lambda _records, taken: batches.put(taken), on_failure=lambda *_: None)
    try:
        tail.add(topic, {0: 0})
        for _ in range(BATCHES_MAX):
            write(topic, b"1", partition=0)
            taken = batches.get(timeout=30)
        write(topic, b"1", partition=0)
        with pytest.raises(queue.Empty):
            batches.get(timeout=0.3)
        taken()
        batches.get(timeout=30)
    finally:
        tail.close()


def test_offset_that_does_not_exist_is_a_failure_of_the_topic(cluster: Cluster, topic: str) -> None:
    failures: queue.SimpleQueue[tuple[str, HeadraceError]] = queue.SimpleQueue()
    tail = Tail(
        cluster, on_records=lambda _records, taken: taken(), on_failure=lambda *each: failures.put(each)
    )
    try:
        tail.add(topic, {0: 1_000})
        name, error = failures.get(timeout=30)
        assert name == topic
        assert topic in error.message
    finally:
        tail.close()
