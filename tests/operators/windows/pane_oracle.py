"""What windows with panes must say, in plain Python: one dict, one row at a time, no columns.

Times are whole microseconds. A row is (key, time, value); a value may be None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.operators.triggers import Panes

Row = tuple[str, int, int | None]
END = 2**62
"""The watermark behind the last row of a bounded input."""
Assign = Callable[[int], list[tuple[int, int]]]
Gap = int | Callable[[Row], int]
"""The same for all rows, or each row's own."""


@dataclass
class Slot:
    key: str
    start: int
    end: int
    rows: list[Row] = field(default_factory=list)
    new: list[Row] = field(default_factory=list)
    done: bool = False
    wake: float = math.inf
    revision: int = 0
    said: tuple[Any, ...] | None = None


@dataclass
class Rules:
    within: int = 0
    early_rows: int | None = None
    early: int | None = None
    late: int = 0
    panes: Panes = "retracting"


def results(rows: Iterable[Row]) -> tuple[Any, ...]:
    """count(*), sum, min, max, first and last by time, collect: as the steps under test have them."""
    rows = list(rows)
    by_time = sorted((time, value) for _, time, value in rows if value is not None)
    values = [value for _, value in by_time]
    if not values:
        return len(rows), None, None, None, None, None, ()
    return len(rows), sum(values), min(values), max(values), values[0], values[-1], tuple(values)


class Oracle:
    """Windows that the clock decides (`assign`), or sessions (`gap`)."""

    def __init__(self, rules: Rules, *, assign: Assign | None = None, gap: Gap | None = None) -> None:
        self.rules = rules
        self.assign = assign
        self.gap = gap
        self.slots: list[Slot] = []
        self.late_rows = 0

    def step(self, rows: Sequence[Row], watermark: float, now: int) -> list[tuple[Any, ...]]:
        """(key, start, end, results…, pane, revision, op) of everything that is said, in no order."""
        existed = set(map(id, self.slots))
        before: dict[int, list[Slot]] = {id(slot): [slot] for slot in self.slots}
        for row in rows:
            for start, end in self.assign(row[1]) if self.assign else [(row[1], row[1] + self._gap(row))]:
                if end + self.rules.within <= watermark:
                    self.late_rows += 1
                else:
                    self._add(Slot(row[0], start, end, [row], [row]), before)
        said = []
        for slot in list(self.slots):
            published = [each for each in before.get(id(slot), []) if each.said is not None]
            was_there = any(id(each) in existed for each in before.get(id(slot), []))
            said += self._publish(slot, published, was_there, watermark, now)
            if slot.end + self.rules.within <= watermark:
                self.slots.remove(slot)
        return said

    def _gap(self, row: Row) -> int:
        assert self.gap is not None
        return self.gap if isinstance(self.gap, int) else self.gap(row)

    def _add(self, new: Slot, before: dict[int, list[Slot]]) -> None:
        if self.gap is None:
            touching = [s for s in self.slots if (s.key, s.start) == (new.key, new.start)]
        else:
            touching = [s for s in self.slots if s.key == new.key and s.start < new.end and new.start < s.end]
        merged = Slot(new.key, new.start, new.end)
        ancestors: list[Slot] = []
        for each in [*touching, new]:
            merged.start, merged.end = min(merged.start, each.start), max(merged.end, each.end)
            merged.rows += each.rows
            merged.new += each.new
            merged.done |= each.done
            merged.wake = min(merged.wake, each.wake)
            merged.revision = max(merged.revision, each.revision)
            ancestors += before.get(id(each), [])
            if each is not new:
                self.slots.remove(each)
        self.slots.append(merged)
        before[id(merged)] = ancestors
        self._keep_alive = [*getattr(self, "_keep_alive", []), merged]  # an id must not be used again

    def _publish(
        self, slot: Slot, published: list[Slot], was_there: bool, watermark: float, now: int
    ) -> list[tuple[Any, ...]]:
        rules = self.rules
        if len(published) == 1:
            slot.said = published[0].said
        is_over = slot.end <= watermark
        changed = bool(slot.new)
        on_time = is_over and was_there and not slot.done
        if not is_over:
            slot.done = False
        if changed:
            interval = rules.late if is_over else rules.early
            slot.wake = min(slot.wake, now + interval if interval is not None else math.inf)
        publish = on_time or (changed and (slot.wake <= now or slot.end + rules.within <= watermark))
        if rules.early_rows is not None and not is_over and len(slot.new) >= rules.early_rows:
            publish = True
        publish = publish or len(published) > 1
        if rules.panes == "discarding" and not changed:
            publish = False
        slot.done = is_over
        if not publish:
            return []
        pane = "on time" if on_time else "late" if is_over else "early"
        what = results(slot.new if rules.panes == "discarding" else slot.rows)
        said = []
        if rules.panes == "retracting":
            said += [(*each.said, "-") for each in published if each.said is not None]
        slot.said = (slot.key, slot.start, slot.end, *what, pane, slot.revision)
        said.append((*slot.said, "+"))
        slot.revision += 1
        slot.new = []
        slot.wake = math.inf
        return said


class SlidingOracle(Oracle):
    """A window for every time at which a row came: the rows of the key less than `within` before it."""

    def __init__(self, rules: Rules, within: int) -> None:
        super().__init__(rules)
        self.within = within
        self.taken: list[Row] = []

    def step(self, rows: Sequence[Row], watermark: float, now: int) -> list[tuple[Any, ...]]:
        there = {(slot.key, slot.end) for slot in self.slots}
        for row in rows:
            if row[1] + 1 + self.rules.within <= watermark:
                self.late_rows += 1
                continue
            self.taken.append(row)
            if not any((slot.key, slot.end) == row[:2] for slot in self.slots):
                self.slots.append(Slot(row[0], row[1] - self.within, row[1]))
        said = []
        for slot in list(self.slots):
            was_said = slot.said
            reached = [row for row in self.taken if row[0] == slot.key and slot.start < row[1] <= slot.end]
            slot.new = reached[len(slot.rows) - len(slot.new) :]
            slot.rows = reached
            before = [Slot(slot.key, slot.start, slot.end, said=was_said)] if was_said else []
            # The rules are about windows without their end; these are with it.
            slot.end += 1
            out = self._publish(slot, before, (slot.key, slot.end - 1) in there, watermark, now)
            slot.end -= 1
            if out:
                key, start, end, *rest = out[-1][:-1]
                slot.said = (key, start, end - 1, *rest)
                out[-1] = (*slot.said, "+")
            said += out
            if slot.end + 1 + self.rules.within <= watermark:
                self.slots.remove(slot)
        return said


class CountingOracle:
    """Windows of so many rows of a key, by time and then by `tie`. Forgets nothing: all rows are placed every time."""

    def __init__(
        self, rules: Rules, count: int, tie: Callable[[Row], int], *, emits_rest: bool = False
    ) -> None:
        self.rules = rules
        self.count = count
        self.tie = tie
        self.emits_rest = emits_rest
        self.rows: dict[str, list[Row]] = {}
        self.windows: dict[tuple[str, int], Slot] = {}
        self.changes: dict[tuple[str, int], int] = {}
        self.late_rows = 0

    def step(self, rows: Sequence[Row], watermark: float, now: int) -> list[tuple[Any, ...]]:
        fresh: list[Row] = []
        for row in rows:
            if row[1] + 1 + self.rules.within <= watermark:
                self.late_rows += 1
            else:
                fresh.append(row)
        said = []
        for key in {*self.rows, *(row[0] for row in fresh)}:
            said += self._step_key(key, [row for row in fresh if row[0] == key], watermark, now)
        return said

    def _step_key(self, key: str, fresh: list[Row], watermark: float, now: int) -> list[tuple[Any, ...]]:
        marked = [(row, False) for row in self.rows.get(key, [])] + [(row, True) for row in fresh]
        marked.sort(key=lambda each: (each[0][1], self.tie(each[0])))
        self.rows[key] = [row for row, _ in marked]
        said = []
        for number in range(-(-len(marked) // self.count)):
            inside = self.rows[key][number * self.count : (number + 1) * self.count]
            slot = self.windows.setdefault((key, number), Slot(key, 0, 0))
            slot.start, slot.end, slot.rows = inside[0][1], inside[-1][1], inside
            came = sum(is_fresh for _, is_fresh in marked[: number * self.count + len(inside)])
            self.changes[key, number] = min(self.changes.get((key, number), 0) + came, len(inside))
            said += self._publish(slot, number, watermark, now)
        return said

    def _publish(self, slot: Slot, number: int, watermark: float, now: int) -> list[tuple[Any, ...]]:
        rules, changes = self.rules, self.changes[slot.key, number]
        is_full = len(slot.rows) == self.count
        is_over = is_full and slot.end + 1 <= watermark
        if changes:
            interval = rules.late if is_over else rules.early
            slot.wake = min(slot.wake, now + interval if interval is not None else math.inf)
        publish = is_over and not slot.done
        pane = "on time" if publish else "late" if is_over else "early"
        publish |= changes > 0 and slot.wake <= now
        publish |= changes > 0 and is_full and slot.end + 1 + rules.within <= watermark
        publish |= rules.early_rows is not None and not is_over and changes >= rules.early_rows
        publish |= self.emits_rest and watermark >= END and not is_full and (changes > 0 or not slot.revision)
        slot.done |= is_over
        if not publish:
            return []
        said = [(*slot.said, "-")] if slot.said else []
        slot.said = (slot.key, slot.start, slot.end, *results(slot.rows), pane, slot.revision)
        slot.revision += 1
        slot.wake = math.inf
        self.changes[slot.key, number] = 0
        return [*said, (*slot.said, "+")]


def clock(length: int, every: int, offset: int = 0) -> Assign:
    """By looking at every window there could be, one by one."""

    def assign(time: int) -> list[tuple[int, int]]:
        first = (time - length - offset) // every - 1
        starts = (number * every + offset for number in range(first, first + length // every + 5))
        return [(start, start + length) for start in starts if start <= time < start + length]

    return assign
