"""Ranges of offsets in order, without gaps: what a window keeps instead of one object for each record.

A change of a range splits the spans that it touches and merges equal neighbours, so that memory grows with the number
of spans and not of records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from headrace.broker.shares.states import FINAL_STATES, RecordState

NO_MEMBER = ""


class OffsetRange(Struct, frozen=True):
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
