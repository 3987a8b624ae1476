"""Ranges of offsets in order, without gaps: what a window keeps instead of one object for each record.

A change of a range splits the spans that it touches and merges equal neighbours, so that memory grows with the number
of spans and not of records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from headrace.broker.shares.states import FINAL_STATES, RecordState

NO_MEMBER = ""


class OffsetRange(Struct, frozen=True, gc=False):
    """Both ends are included."""

    first: int
    last: int

    @property
    def records(self) -> int:
        return self.last - self.first + 1


class Span(OffsetRange, frozen=True):
    """Offsets in one state."""

    state: RecordState
    delivery_count: int = 0
    member_id: str = NO_MEMBER
    """The member that has locked it, of an acquired span."""
    until_ms: int = 0
    """Monotonic: when the lock ends, of an acquired span; until when it is not delivered, of an available one."""

    def part(self, first: int, last: int) -> Span:
        return Span(first, last, self.state, self.delivery_count, self.member_id, self.until_ms)

    def continues(self, other: Span) -> bool:
        """Whether both can be merged: the delivery count does not matter once a record is done."""
        if self.state is not other.state:
            return False
        return self.state in FINAL_STATES or (
            self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.until_ms == other.until_ms
        )


class Spans:
    """Covers [start, end) completely."""

    def __init__(self, start: int) -> None:
        self.start = start
        self._spans: list[Span] = []
        self._firsts: list[int] = []
        self.records_in: dict[RecordState, int] = dict.fromkeys(RecordState, 0)

    def __len__(self) -> int:
        return len(self._spans)

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    @property
    def end(self) -> int:
        return self._spans[-1].last + 1 if self._spans else self.start

    def from_offset(self, offset: int) -> Iterator[Span]:
        """The span with an offset, and all after it."""
        index = max(bisect_right(self._firsts, offset) - 1, 0)
        while index < len(self._spans):
            yield self._spans[index]
            index += 1

    def overlapping(self, first: int, last: int) -> list[Span]:
        """The parts of all spans within a range."""
        parts = []
        for span in self.from_offset(first):
            if span.first > last:
                break
            if span.last >= first:
                parts.append(replace(span, first=max(span.first, first), last=min(span.last, last)))
        return parts

    def touching(self, first: int, last: int) -> list[Span]:
        """The spans that have offsets in a range, not cut."""
        return self._spans[max(bisect_right(self._firsts, first) - 1, 0) : bisect_right(self._firsts, last)]

    def change(self, ranges: Sequence[OffsetRange], changed: Callable[[int, int, Span], Span]) -> list[Span]:
        """Replace all that is within these ranges, which are in order and within the spans; returns the new spans.

        `changed` gets the first and the last offset of a part, and its old span. The list of spans is written once,
        while `put` moves all that is behind it.
        """
        if not ranges:
            return []
        spans, firsts, counts = self._spans, self._firsts, self.records_in
        index = bisect_right(firsts, ranges[0].first) - 1
        begin = max(index - 1, 0)
        merged = spans[begin:index]
        parts = []
        span = spans[index]
        kept_from = span.first
        for each in ranges:
            first, last = each.first, each.last
            if span.last < first:
                if kept_from <= span.last:
                    _append(merged, span.part(kept_from, span.last))
                before, index = index, bisect_right(firsts, first, index) - 1
                if before + 1 < index:
                    _append(merged, spans[before + 1])
                    merged += spans[before + 2 : index]
                span = spans[index]
                kept_from = span.first
            if kept_from < first:
                _append(merged, span.part(kept_from, first - 1))
            while True:
                end = min(span.last, last)
                part = changed(first, end, span)
                parts.append(part)
                _append(merged, part)
                records = end - first + 1
                counts[span.state] -= records
                counts[part.state] += records
                if end == last:
                    break
                index += 1
                span = spans[index]
                first = span.first
            kept_from = last + 1
        if kept_from <= span.last:
            _append(merged, span.part(kept_from, span.last))
        stop = index + 1
        if stop < len(spans):
            _append(merged, spans[stop])
            stop += 1
        spans[begin:stop] = merged
        firsts[begin:stop] = [each.first for each in merged]
        return parts

    def put(self, span: Span) -> None:
        """Replace a range; it starts within the spans or right after them."""
        assert self.start <= span.first <= self.end, f"{span} leaves a gap after {self.end}"
        begin, stop = self._split(span.first), self._split(span.last + 1)
        for old in self._spans[begin:stop]:
            self.records_in[old.state] -= old.records
        self.records_in[span.state] += span.records
        if begin > 0 and self._spans[begin - 1].continues(span):
            begin -= 1
            span = replace(span, first=self._spans[begin].first)
        if stop < len(self._spans) and self._spans[stop].continues(span):
            span = replace(span, last=self._spans[stop].last)
            stop += 1
        self._spans[begin:stop] = [span]
        self._firsts[begin:stop] = [span.first]

    def cut_before(self, offset: int) -> None:
        """Drop everything below an offset."""
        stop = self._split(offset)
        for old in self._spans[:stop]:
            self.records_in[old.state] -= old.records
        del self._spans[:stop]
        del self._firsts[:stop]
        self.start = max(self.start, offset)

    def first_unfinished(self) -> int:
        """The first offset that is not done."""
        for span in self._spans:
            if span.state not in FINAL_STATES:
                return span.first
        return self.end

    def _split(self, offset: int) -> int:
        """The index of the span that starts at an offset; splits a span if necessary."""
        if not self._spans or offset > self._spans[-1].last:
            return len(self._spans)
        index = bisect_right(self._firsts, offset) - 1
        if index < 0:
            return 0
        span = self._spans[index]
        if span.first == offset:
            return index
        self._spans[index] = replace(span, last=offset - 1)
        self._spans.insert(index + 1, replace(span, first=offset))
        self._firsts.insert(index + 1, offset)
        return index + 1


def _append(spans: list[Span], span: Span) -> None:
    """Add a span, or make the last one longer."""
    if spans and span.continues(spans[-1]):
        spans[-1] = span.part(spans[-1].first, span.last)
    else:
        spans.append(span)
