from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.edges.direct.carried import Carried
from headrace.edges.direct.gaps import Gap
from headrace.edges.direct.resuming import Resumed, Tail, resume
from tests.edges.direct.conftest import STREAM


def carried(number: int, first: int | None = None, dropped: int = 0) -> Carried:
    return Carried(stream=STREAM, number=number, first=number if first is None else first, dropped=dropped)


def whole(*records: Carried) -> Tail:
    return Tail(carried=records, is_whole=True)


def test_topic_without_a_feed_has_nothing_to_continue() -> None:
    assert resume([whole(), whole()]) == {}


def test_stream_continues_after_its_last_event() -> None:
    assert resume([whole(carried(3), carried(4))]) == {STREAM: Resumed(expected=5)}


def test_what_was_in_flight_to_another_partition_is_a_hole() -> None:
    found = resume([whole(carried(1), carried(4)), whole(carried(2))])
    assert found == {STREAM: Resumed(expected=5, holes=(Gap(3, 4),), lost=1)}


def test_losses_that_are_in_the_data_are_not_counted_again() -> None:
    in_range = resume([whole(carried(1), carried(9, first=2))])
    assert in_range[STREAM] == Resumed(expected=10)
    dropped = resume([whole(carried(1), carried(4, dropped=2))])
    assert dropped[STREAM] == Resumed(expected=5, holes=(Gap(2, 4),), lost=0)


def test_numbers_before_the_tails_are_unknown_and_no_holes() -> None:
    short = Tail(carried=[carried(10), carried(12)], is_whole=False)
    assert resume([short, whole(carried(2), carried(11))])[STREAM] == Resumed(expected=13)


def test_partition_whose_tail_has_only_other_streams_leaves_holes_unknown() -> None:
    other = Tail(carried=[Carried(stream=9, number=1, first=1)], is_whole=False)
    assert resume([whole(carried(1), carried(5)), other])[STREAM] == Resumed(expected=6)


@given(st.data())
def test_holes_are_exactly_the_numbers_that_no_partition_has(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 60))
    partitions: list[list[Carried]] = [[] for _ in range(data.draw(st.integers(1, 4)))]
    for number in range(count):
        data.draw(st.sampled_from(partitions)).append(carried(number))
    # A crash: each partition has its first records only.
    kept = [each[: data.draw(st.integers(0, len(each)))] for each in partitions]
    found = resume(Tail(carried=each, is_whole=True) for each in kept)
    have = {each.number for records in kept for each in records}
    if not have:
        assert found == {}
        return
    holes = {number for gap in found[STREAM].holes for number in range(*gap)}
    assert found[STREAM].expected == max(have) + 1
    assert holes == set(range(min(have), max(have))) - have
    assert found[STREAM].lost == len(holes)
