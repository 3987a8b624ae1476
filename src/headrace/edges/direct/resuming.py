"""Where a receiver continues that was stopped or killed: from the last records of its own topic.

A topic with several partitions may lack events that were in flight when the receiver was killed. The numbers that no
record accounts for are holes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from headrace.edges.direct.carried import Carried
from headrace.edges.direct.gaps import Gap


class Tail(Struct, frozen=True, kw_only=True):
    """The last records of a partition."""

    carried: Sequence[Carried]
    is_whole: bool
    """the partition has no other records"""


class Resumed(Struct, frozen=True, kw_only=True):
    expected: int
    """the next number"""
    holes: tuple[Gap, ...] = ()
    lost: int = 0
    """numbers in holes that were not yet counted as dropped"""


def resume(tails: Iterable[Tail]) -> dict[int, Resumed]:
    """By stream. Holes are known back to where the tail of every partition reaches."""
    tails = [*tails]
    by_stream: dict[int, list[Carried]] = defaultdict(list)
    for tail in tails:
        for carried in tail.carried:
            by_stream[carried.stream].append(carried)
    return {stream: _resume(stream, records, tails) for stream, records in by_stream.items()}


def _resume(stream: int, records: list[Carried], tails: list[Tail]) -> Resumed:
    expected = max(each.number for each in records) + 1
    at = _known_from(stream, tails, expected)
    at = min(each.first for each in records) if at is None else at
    known = sorted(records, key=lambda each: each.first)
    counted = sum(each.dropped for each in records if each.number >= at)
    holes = []
    for each in known:
        if each.first > at:
            holes.append(Gap(at, each.first))
        at = max(at, each.number + 1)
    missing = sum(each.size for each in holes)
    return Resumed(expected=expected, holes=tuple(holes), lost=max(missing - counted, 0))


def _known_from(stream: int, tails: list[Tail], expected: int) -> int | None:
    """The number from which on every record of the stream is in a tail; None if the tails have all of them."""
    starts = []
    for tail in tails:
        if not tail.is_whole:
            own = [each.first for each in tail.carried if each.stream == stream]
            starts.append(min(own) if own else expected)
    return max(starts) if starts else None
