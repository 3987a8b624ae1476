"""The queue in memory, by itself; tests/contract has what it promises in front of a broker."""

from __future__ import annotations

import pytest

from headrace.edges.event import Entry, Reason
from headrace.edges.waiting import WaitingEvents, WhenFull
from tests.edges.conftest import entry, values

Dropped = list[tuple[bytes | None, Reason]]


def queue_of(when_full: WhenFull, bytes_max: int) -> tuple[WaitingEvents, Dropped]:
    dropped: Dropped = []

    def on_dropped(entry: Entry, reason: Reason) -> None:
        dropped.append((entry.event.value, reason))

    return (
        WaitingEvents(when_full, bytes_max=bytes_max, on_taken=lambda _count: None, on_dropped=on_dropped),
        dropped,
    )


def test_full_queue_drops_the_newest() -> None:
    queue, dropped = queue_of("drop-newest", 2)
    assert queue.offer([entry(b"1"), entry(b"2"), entry(b"3")])
    assert dropped == [(b"3", Reason.NEWEST)]
    assert values(queue.take(100, 0)) == [b"1", b"2"]


def test_full_queue_drops_the_oldest() -> None:
    queue, dropped = queue_of("drop-oldest", 2)
    assert queue.offer([entry(b"1"), entry(b"2"), entry(b"3")])
    assert dropped == [(b"1", Reason.OLDEST)]
    assert values(queue.take(100, 0)) == [b"2", b"3"]


def test_full_queue_that_blocks_takes_all_or_nothing() -> None:
    queue, dropped = queue_of("block", 2)
    assert queue.offer([entry(b"1")])
    assert not queue.offer([entry(b"2"), entry(b"3")])
    assert queue.memory_bytes == 1
    assert values(queue.take(100, 0)) == [b"1"]
    assert queue.room.wait(0)
    assert queue.offer([entry(b"2"), entry(b"3")])
    assert dropped == []


@pytest.mark.parametrize("when_full", ["drop-newest", "drop-oldest", "block"])
def test_event_larger_than_the_queue_has_its_turn_alone(when_full: WhenFull) -> None:
    queue, dropped = queue_of(when_full, 2)
    assert queue.offer([entry(b"large", memory_bytes=10)])
    assert (values(queue.take(1, 0)), dropped) == ([b"large"], [])


@pytest.mark.parametrize("when_full", ["drop-newest", "drop-oldest", "block"])
def test_memory_never_exceeds_its_bound(when_full: WhenFull) -> None:
    queue, dropped = queue_of(when_full, 10)
    taken = sum(queue.offer([entry(memory_bytes=3)]) for _ in range(100))
    assert queue.memory_bytes <= 10
    assert len(queue.take(100, 0)) + len(dropped) == taken


def test_take_respects_its_bound_and_returns_nothing_in_time() -> None:
    queue, _ = queue_of("block", 100)
    assert queue.take(10, 0) == []
    queue.offer([entry(b"1", memory_bytes=4), entry(b"2", memory_bytes=4), entry(b"3", memory_bytes=4)])
    assert values(queue.take(8, 0)) == [b"1", b"2"]
    assert values(queue.close()) == [b"3"]
    assert queue.memory_bytes == 0
