"""The queue in memory, by itself; tests/contract has what it promises in front of a broker."""

from __future__ import annotations

import pytest

from headrace.edges.event import Entry, Event, Reason
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


def of_topic(topic: str, value: bytes, *headers: tuple[str, bytes]) -> Entry:
    return Entry(event=Event(topic=topic, value=value, headers=headers), memory_bytes=1, timestamp_ms=1)


def marks(entries: list[Entry]) -> dict[bytes | None, list[bytes | None]]:
    """What each entry says was dropped before it."""
    return {
        each.event.value: [value for name, value in each.event.headers if name == "edge.dropped"]
        for each in entries
    }


def test_next_event_of_a_topic_says_how_many_newer_ones_were_dropped_before_it() -> None:
    queue, _ = queue_of("drop-newest", 2)
    queue.offer([of_topic("a", b"1"), of_topic("b", b"2"), of_topic("a", b"3"), of_topic("a", b"4")])
    assert marks(queue.take(100, 0)) == {b"1": [], b"2": []}
    queue.offer([of_topic("b", b"5"), of_topic("a", b"6")])
    assert marks(queue.take(100, 0)) == {b"5": [], b"6": [b"2"]}
    queue.offer([of_topic("a", b"7")])
    assert marks(queue.take(100, 0)) == {b"7": []}


def test_next_event_of_a_topic_says_how_many_older_ones_were_dropped_before_it() -> None:
    queue, _ = queue_of("drop-oldest", 2)
    queue.offer([of_topic("a", b"1"), of_topic("a", b"2"), of_topic("b", b"3"), of_topic("a", b"4")])
    assert marks(queue.take(1, 0)) == {b"3": []}
    assert marks(queue.take(1, 0)) == {b"4": [b"2"]}


def test_dropped_summary_counts_as_the_events_that_it_sums_up() -> None:
    queue, _ = queue_of("drop-newest", 1)
    summary = ("edge.received", b"30"), ("edge.dropped", b"5")
    queue.offer(
        [of_topic("a", b"1"), of_topic("a", b"2", *summary), of_topic("a", b"3", ("edge.received", b"many"))]
    )
    queue.take(1, 0)
    queue.offer([of_topic("a", b"4")])
    assert marks(queue.take(1, 0)) == {b"4": [b"36"]}


@pytest.mark.parametrize("when_full", ["drop-newest", "drop-oldest"])
def test_edge_that_reports_its_losses_itself_has_no_marks(when_full: WhenFull) -> None:
    queue = WaitingEvents(
        when_full,
        bytes_max=1,
        on_taken=lambda _count: None,
        on_dropped=lambda _entry, _reason: None,
        marks_drops=False,
    )
    queue.offer([entry(b"1"), entry(b"2")])
    queue.take(1, 0)
    queue.offer([entry(b"3")])
    assert marks(queue.take(1, 0)) == {b"3": []}


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
