"""Spans against a model that keeps the state of each offset."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.broker.shares.spans import OffsetRange, Span, Spans
from headrace.broker.shares.states import FINAL_STATES, RecordState

START = 10
PUTS = st.tuples(
    st.just("put"),
    st.integers(0, 30),
    st.integers(1, 8),
    st.sampled_from([*RecordState]),
    st.integers(0, 1),
)
CUTS = st.tuples(st.just("cut"), st.integers(0, 30), st.just(0), st.just(RecordState.AVAILABLE), st.just(0))


@given(st.lists(PUTS | CUTS, max_size=30))
def test_spans_cover_their_range_with_the_last_state_of_every_offset(
    changes: list[tuple[str, int, int, RecordState, int]],
) -> None:
    spans = Spans(START)
    model: dict[int, tuple[RecordState, int]] = {}
    for kind, distance, length, state, delivery_count in changes:
        if kind == "put":
            first = min(spans.start + distance, spans.end)
            spans.put(Span(first, first + length - 1, state, delivery_count))
            model |= dict.fromkeys(range(first, first + length), (state, delivery_count))
        else:
            offset = min(spans.start + distance, spans.end)
            spans.cut_before(offset)
            model = {key: value for key, value in model.items() if key >= offset}
            assert spans.start == offset
        for offset, (wanted, count) in model.items():
            [found] = spans.overlapping(offset, offset)
            assert found.state is wanted
            assert wanted in FINAL_STATES or found.delivery_count == count
        assert [*range(spans.start, spans.end)] == sorted(model)
        assert spans.records_in == {
            one: sum(state is one for state, _ in model.values()) for one in RecordState
        }
        assert all(one.last + 1 == other.first for one, other in pairwise(spans))
        unfinished = (offset for offset in sorted(model) if model[offset][0] not in FINAL_STATES)
        assert spans.first_unfinished() == next(unfinished, spans.end)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from([*RecordState]), st.integers(0, 1)), min_size=1),
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), max_size=8),
    st.sampled_from([*RecordState]),
)
def test_changing_many_ranges_is_the_same_as_putting_each_part(
    old: list[tuple[int, RecordState, int]], distances: list[tuple[int, int]], state: RecordState
) -> None:
    spans, model = Spans(START), Spans(START)
    for length, of_part, delivery_count in old:
        for each in (spans, model):
            each.put(Span(each.end, each.end + length - 1, of_part, delivery_count))
    ranges = []
    first = START
    for distance, length in distances:
        first += distance
        ranges.append(OffsetRange(first, first + length - 1))
        first += length
    ranges = [one for one in ranges if one.last < spans.end]
    parts = [part for one in ranges for part in model.overlapping(one.first, one.last)]
    for part in parts:
        model.put(Span(part.first, part.last, state, part.delivery_count + 1))

    changed = spans.change(ranges, lambda first, last, old: Span(first, last, state, old.delivery_count + 1))

    assert [(one.first, one.last) for one in changed] == [(one.first, one.last) for one in parts]
    assert [_seen(one) for one in spans] == [_seen(one) for one in model]
    assert spans.records_in == model.records_in
    assert all(spans.touching(one.first, one.last) == [one] for one in spans)


def _seen(span: Span) -> Span:
    """The delivery count does not matter once a record is done."""
    return replace(span, delivery_count=0) if span.state in FINAL_STATES else span


def test_equal_neighbours_are_one_span() -> None:
    spans = Spans(0)
    spans.put(Span(0, 4, RecordState.AVAILABLE))
    spans.put(Span(5, 9, RecordState.AVAILABLE))
    assert [*spans] == [Span(0, 9, RecordState.AVAILABLE)]
    spans.put(Span(3, 5, RecordState.ACQUIRED, 1, "m", 9))
    assert len(spans) == 3
    spans.put(Span(3, 5, RecordState.AVAILABLE))
    assert [*spans] == [Span(0, 9, RecordState.AVAILABLE)]


def test_delivery_count_of_a_finished_record_does_not_split() -> None:
    spans = Spans(0)
    spans.put(Span(0, 0, RecordState.ACKNOWLEDGED, 1))
    spans.put(Span(1, 1, RecordState.ACKNOWLEDGED, 2))
    assert len(spans) == 1
