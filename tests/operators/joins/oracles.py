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
