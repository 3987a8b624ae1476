from __future__ import annotations

import pytest

from headrace.edges.direct.carried import Carried, carried_by
from headrace.edges.direct.feed import Feed, Stream, TooManyStreams
from headrace.edges.direct.gaps import Gap, ReorderBounds
from headrace.edges.direct.packet import Packet
from headrace.edges.direct.tally import Tally
from tests.edges.direct.conftest import event, heartbeat, packet


def feed(tally: Tally | None = None, *, held_bytes_max: int = 1_000) -> Feed:
    return Feed(
        ReorderBounds(),
        tally or Tally(),
        streams_max=2,
        stream_idle_ms=1_000,
        held_bytes_max=held_bytes_max,
    )


def test_streams_are_numbered_apart() -> None:
    tally = Tally()
    streams = feed(tally)
    for number in (5, 6):
        for stream in (1, 2):
            (ready,) = streams.accept(packet(number, stream=stream), 0, 100)
            assert isinstance(ready[1], Packet)
            assert ready[0].stream == stream
    assert (len(streams), tally.duplicates) == (2, 0)


def test_new_stream_begins_where_it_is_first_heard() -> None:
    # A publisher that numbers from 0 again, or a receiver that starts late: no gap of billions.
    streams = feed()
    assert [type(each) for _, each in streams.accept(packet(10**12, stream=1), 0, 100)] == [Packet]
    assert [type(each) for _, each in streams.accept(packet(0, stream=2), 0, 100)] == [Packet]


def test_stream_that_continues_from_an_earlier_run_shows_what_it_missed() -> None:
    streams = feed()
    streams.resume({7: 3})
    assert [*streams.accept(heartbeat(5), 0, 100)] == []
    assert [each for _, each in streams.expire(100)] == [Gap(3, 5)]
    assert streams.stream(7).position.expected == 5


def test_forged_streams_take_no_room_from_streams_that_are_heard() -> None:
    streams = feed()
    for stream in (1, 2):
        streams.accept(packet(0, stream=stream), 0, 100)
    with pytest.raises(TooManyStreams):
        streams.accept(packet(0, stream=3), 999, 100)
    streams.accept(packet(1, stream=2), 999, 100)
    streams.accept(packet(0, stream=3), 1_000, 100)
    assert len(streams) == 2
    # Stream 1 was idle for longest.
    assert streams.stream(2).position.expected == 2


def test_next_event_carries_what_was_missing_and_what_was_dropped() -> None:
    stream = Stream(7, 0)
    stream.miss(3)
    stream.drop(2)
    first, second = stream.events_of([event(3), event(4)], "topic")
    assert carried_by(first[0].headers) == Carried(stream=7, number=3, first=0, missing=3, dropped=2)
    assert carried_by(second[0].headers) == Carried(stream=7, number=4, first=4)
    # If the first one is dropped, too, six are lost.
    assert (first[2], second[2]) == (6, 1)


def test_event_that_fills_an_old_hole_accounts_for_itself_only() -> None:
    stream = Stream(7, 10)
    hole, next_one = stream.events_of([event(4), event(10)], "topic")
    assert carried_by(hole[0].headers) == Carried(stream=7, number=4, first=4)
    assert carried_by(next_one[0].headers) == Carried(stream=7, number=10, first=10)


def test_forged_gaps_do_not_fill_the_memory() -> None:
    streams = feed(held_bytes_max=250)
    streams.accept(packet(0), 0, 100)
    assert [streams.accept(packet(number), 0, 100) for number in (2, 4)] == [[], []]
    # Three packets would be held.
    ready = [each for _, each in streams.accept(packet(6), 0, 100)]
    assert [each for each in ready if isinstance(each, Gap)] == [Gap(1, 2), Gap(3, 4), Gap(5, 6)]
    # There is room for others again.
    assert streams.accept(packet(8), 0, 100) == []
