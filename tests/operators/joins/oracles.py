"""The expected results of joins in plain Python: lists and loops, one row at a time. Times are whole numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Lookup = tuple[str | None, int, int]
"""A row: key, time, and a number that identifies it."""

Change = tuple[str, int, int, int | None]
"""Of a table: key, since when, the order among changes of that time, and the value; None if the entry is deleted."""

Enriched = tuple[str | None, int, int, int | None]

SideRow = tuple[str | None, float | None, int]
"""Of a stream to be joined: key, time, and a number."""


def joined_within(
    left: Sequence[SideRow], right: Sequence[SideRow], *, before: float, after: float, unmatched: str | None
) -> list[tuple[Any, ...]]:
    """(key, left's time and number, right's time and number) of all pairs, and of rows without a match."""
    nothing = (None, None)
    pairs = [
        (one, other)
        for one in left
        for other in right
        if one[0] is not None and one[0] == other[0] and one[1] is not None and other[1] is not None
        if one[1] - before <= other[1] <= one[1] + after
    ]
    found: list[tuple[Any, ...]] = [(one[0], *one[1:], *other[1:]) for one, other in pairs]
    if unmatched in ("left", "both"):
        met = {one[2] for one, _ in pairs}
        found += [(one[0], *one[1:], *nothing) for one in left if one[2] not in met]
    if unmatched in ("right", "both"):
        met = {other[2] for _, other in pairs}
        found += [(other[0], *nothing, *other[1:]) for other in right if other[2] not in met]
    return found


@dataclass
class EnrichOracle:
    is_latest: bool = False
    wait: int | None = None
    keep: int = 0
    drops_unmatched: bool = False
    versions: dict[str, dict[int, tuple[int, int | None]]] = field(default_factory=dict)
    waiting: list[Lookup] = field(default_factory=list)
    late_rows: int = 0

    def step(self, rows: Sequence[Lookup], changes: Sequence[Change], watermark: float) -> list[Enriched]:
        for key, since, order, value in changes:
            known = self.versions.setdefault(key, {})
            if since not in known or known[since][0] <= order:
                known[since] = (order, value)
        for row in rows:
            if not self.is_latest and row[0] is not None and row[1] < watermark - self.keep:
                self.late_rows += 1
            else:
                self.waiting.append(row)
        emitted, waiting = [], list[Lookup]()
        for row in self.waiting:
            result = self._result(row, watermark)
            if result is None:
                waiting.append(row)
            elif result[3] is not None or not self.drops_unmatched:
                emitted.append(result)
        self.waiting = waiting
        self._forget(watermark)
        return emitted

    def _result(self, row: Lookup, watermark: float) -> Enriched | None:
        """None if the row still waits."""
        key, time, _ = row
        if key is None:
            return (*row, None)
        if not self.is_latest and time >= watermark:
            return None
        value = value_at(self.versions.get(key, {}), math.inf if self.is_latest else time)
        if value is None and self.wait is not None and time + self.wait >= watermark:
            return None
        return (*row, value)

    def _forget(self, watermark: float) -> None:
        for key, known in list(self.versions.items()):
            horizon = math.inf if self.is_latest else watermark - self.keep
            passed = sorted(since for since in known if since <= horizon)
            for since in passed[:-1]:
                del known[since]
            if passed and known[passed[-1]][1] is None:
                del known[passed[-1]]
            if not known:
                del self.versions[key]


def value_at(known: dict[int, tuple[int, int | None]], time: float) -> int | None:
    since = max((each for each in known if each <= time), default=None)
    return None if since is None else known[since][1]


def as_of(
    rows: Sequence[Lookup], changes: Sequence[Change], *, drops_unmatched: bool = False
) -> list[Enriched]:
    """Each row with the value at its time, all changes known."""
    found: list[Enriched] = []
    for row in rows:
        of_key = {
            (since, order): value for key, since, order, value in changes if key == row[0] and since <= row[1]
        }
        value = of_key[max(of_key)] if of_key else None
        if value is not None or not drops_unmatched:
            found.append((*row, value))
    return found


def joined_in_windows(
    left: Sequence[SideRow], right: Sequence[SideRow], *, length: int, offset: int, unmatched: str | None
) -> list[tuple[Any, ...]]:
    """(key, left's time and number, right's time and number, start of the window) of all pairs and unmatched rows."""

    def start(row: SideRow) -> float | None:
        return None if row[1] is None else (row[1] - offset) // length * length + offset

    def is_pair(one: SideRow, other: SideRow) -> bool:
        return (
            one[0] is not None
            and one[0] == other[0]
            and start(one) is not None
            and start(one) == start(other)
        )

    pairs = [(one, other) for one in left for other in right if is_pair(one, other)]
    found: list[tuple[Any, ...]] = [(one[0], *one[1:], *other[1:], start(one)) for one, other in pairs]
    if unmatched in ("left", "both"):
        met = {one[2] for one, _ in pairs}
        found += [(one[0], *one[1:], None, None, start(one)) for one in left if one[2] not in met]
    if unmatched in ("right", "both"):
        met = {other[2] for _, other in pairs}
        found += [(other[0], None, None, *other[1:], start(other)) for other in right if other[2] not in met]
    return found


@dataclass
class IntervalOracle:
    """A join of streams within an interval, batch by batch: every row against every other one that has arrived."""

    low: int
    high: int
    emits_pairs: bool = True
    keeps: tuple[bool, bool] = (False, False)
    known: tuple[list[SideRow], list[SideRow]] = field(default_factory=lambda: ([], []))
    waiting: list[tuple[int, SideRow]] = field(default_factory=list)
    """Rows without a match, with their side."""
    late_rows: int = 0

    def step(
        self, left: Sequence[SideRow], right: Sequence[SideRow], late: float, watermark: float
    ) -> list[tuple[Any, ...]]:
        """(key, left's time and number, right's time and number)"""
        new = [(side, row) for side, rows in enumerate((left, right)) for row in rows]
        found: list[tuple[Any, ...]] = []
        for side, row in new:
            if row[1] is not None and row[1] < late:
                self.late_rows += 1
                continue
            matches = [other for other in self.known[1 - side] if self._is_pair(side, row, other)]
            for other in matches:
                one, two = (row, other) if side == 0 else (other, row)
                found += [(one[0], *one[1:], *two[1:])] if self.emits_pairs else []
                self.waiting = [each for each in self.waiting if each != (1 - side, other)]
            if self.keeps[side] and not matches:
                self.waiting.append((side, row))
            self.known[side].append(row)
        for each in [each for each in self.waiting if self._is_over(*each, watermark)]:
            self.waiting.remove(each)
            side, row = each
            found.append((*row, None, None) if side == 0 else (row[0], None, None, *row[1:]))
        return found

    def _is_pair(self, side: int, row: SideRow, other: SideRow) -> bool:
        one, two = (row, other) if side == 0 else (other, row)
        if one[0] is None or one[0] != two[0] or one[1] is None or two[1] is None:
            return False
        return one[1] + self.low <= two[1] <= one[1] + self.high

    def _is_over(self, side: int, row: SideRow, watermark: float) -> bool:
        key, time, _ = row
        if key is None or time is None:
            return True
        return time + (self.high if side == 0 else -self.low) < watermark

    def live(self, watermark: float) -> int:
        """How many rows may still find a match."""
        return sum(
            not self._is_over(side, row, watermark) for side, rows in enumerate(self.known) for row in rows
        )
