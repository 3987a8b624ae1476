"""The expected panes of windows in plain Python: one dict, one row at a time, no columns.

Times are whole microseconds. A row is (key, time, value); a value may be None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from headrace.operators.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterDelay,
    AfterEach,
    Condition,
    Panes,
    Repeatedly,
    When,
)

Row = tuple[str, int, int | None]
END = 2**62
"""The final watermark of a bounded input."""
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
    first: float = math.inf
    fired: int = 0
    revision: int = 0
    emitted: tuple[Any, ...] | None = None


@dataclass
class Rules:
    within: int = 0
    early_rows: int | None = None
    early: int | None = None
    late: int = 0
    panes: Panes = "retracting"
    early_when: When | None = None
    on_time: bool = True
    late_when: When | None = None

    @property
    def early_pane(self) -> When | None:
        """As `Trigger.early`: `early_when`, or after `early_rows` rows or the delay `early`."""
        given: list[Condition] = [] if self.early_rows is None else [AfterCount(self.early_rows)]
        given += [] if self.early is None else [AfterDelay(timedelta(microseconds=self.early))]
        return self.early_when or (AfterAny(*given) if len(given) > 1 else given[0] if given else None)

    @property
    def late_pane(self) -> When:
        return self.late_when or (
            AfterDelay(timedelta(microseconds=self.late)) if self.late else AfterCount(1)
        )

    def wants(self, *, is_over: bool, fired: int, rows: int, first: float, now: int) -> bool:
        """Whether the next pane is due: `fired` panes were before it, `rows` are new, the first at `first`."""
        when = self.late_pane if is_over else self.early_pane
        if isinstance(when, Repeatedly):
            when = when.condition
            if isinstance(when, AfterEach):
                fired %= len(when.steps)
        if isinstance(when, AfterEach):
            if when.repeats_last:
                fired = min(fired, len(when.steps) - 1)
            when = when.steps[fired] if fired < len(when.steps) else None
        return rows > 0 and when is not None and is_met(when, rows, now - first)


def is_met(condition: Any, rows: int, waited: float) -> bool:
    match condition:
        case AfterCount():
            return rows >= condition.rows
        case AfterDelay():
            return waited >= condition.delay_us
        case AfterAny():
            return any(is_met(each, rows, waited) for each in condition.conditions)
        case AfterAll():
            return all(is_met(each, rows, waited) for each in condition.conditions)
    raise AssertionError(condition)


def results(rows: Iterable[Row]) -> tuple[Any, ...]:
    """count(*), sum, min, max, first and last by time, collect: as the steps under test have them."""
    rows = list(rows)
    by_time = sorted((time, value) for _, time, value in rows if value is not None)
    values = [value for _, value in by_time]
    if not values:
        return len(rows), None, None, None, None, None, ()
    return len(rows), sum(values), min(values), max(values), values[0], values[-1], tuple(values)


class Oracle:
    """Windows with fixed boundaries (`assign`), or sessions (`gap`)."""

    def __init__(self, rules: Rules, *, assign: Assign | None = None, gap: Gap | None = None) -> None:
        self.rules = rules
        self.assign = assign
        self.gap = gap
        self.slots: list[Slot] = []
        self.late_rows = 0

    def step(self, rows: Sequence[Row], watermark: float, now: int) -> list[tuple[Any, ...]]:
        """(key, start, end, results…, pane, revision, op) of all emitted rows, in any order."""
        existed = set(map(id, self.slots))
        before: dict[int, list[Slot]] = {id(slot): [slot] for slot in self.slots}
        for row in rows:
            for start, end in self.assign(row[1]) if self.assign else [(row[1], row[1] + self._gap(row))]:
                if end + self.rules.within <= watermark:
                    self.late_rows += 1
                else:
                    self._add(Slot(row[0], start, end, [row], [row]), before)
        emitted = []
        for slot in list(self.slots):
            published = [each for each in before.get(id(slot), []) if each.emitted is not None]
            was_there = any(id(each) in existed for each in before.get(id(slot), []))
            emitted += self._publish(slot, published, was_there, watermark, now)
            if slot.end + self.rules.within <= watermark:
                self.slots.remove(slot)
        return emitted

    def _gap(self, row: Row) -> int:
        assert self.gap is not None
        return self.gap if isinstance(self.gap, int) else self.gap(row)

    def _add(self, new: Slot, before: dict[int, list[Slot]]) -> None:
        if self.gap is None:
            window = new.key, new.start, new.end
            touching = [s for s in self.slots if (s.key, s.start, s.end) == window]
        else:
            touching = [s for s in self.slots if s.key == new.key and s.start < new.end and new.start < s.end]
        merged = Slot(new.key, new.start, new.end)
        ancestors: list[Slot] = []
        for each in [*touching, new]:
            merged.start, merged.end = min(merged.start, each.start), max(merged.end, each.end)
            merged.rows += each.rows
            merged.new += each.new
            merged.done |= each.done
            merged.first = min(merged.first, each.first)
            merged.fired = max(merged.fired, each.fired)
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
            slot.emitted = published[0].emitted
        is_over = slot.end <= watermark
        changed = bool(slot.new)
        on_time = is_over and was_there and not slot.done
        closes = is_over and not slot.done and rules.on_time
        if slot.done != is_over and rules.on_time:
            slot.fired = 0
        if changed:
            slot.first = min(slot.first, now)
        publish = closes and (on_time or changed)
        publish |= changed and slot.end + rules.within <= watermark
        publish |= rules.wants(
            is_over=is_over, fired=slot.fired, rows=len(slot.new), first=slot.first, now=now
        )
        publish |= len(published) > 1 and rules.panes == "retracting"
        if rules.panes == "discarding" and not changed:
            publish = False
        slot.done = is_over
        if not publish:
            return []
        slot.fired = 0 if closes else slot.fired + 1
        pane = "on time" if on_time else "late" if is_over else "early"
        what = results(slot.new if rules.panes == "discarding" else slot.rows)
        emitted = []
        if rules.panes == "retracting":
            emitted += [(*each.emitted, "-") for each in published if each.emitted is not None]
        slot.emitted = (slot.key, slot.start, slot.end, *what, pane, slot.revision)
        emitted.append((*slot.emitted, "+"))
        slot.revision += 1
        slot.new = []
        slot.first = math.inf
        return emitted


class SlidingOracle(Oracle):
    """A window for the time of every row: the rows of the key less than `within` before it."""

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
        emitted = []
        for slot in list(self.slots):
            was_emitted = slot.emitted
            reached = [row for row in self.taken if row[0] == slot.key and slot.start < row[1] <= slot.end]
            slot.new = reached[len(slot.rows) - len(slot.new) :]
            slot.rows = reached
            before = [Slot(slot.key, slot.start, slot.end, emitted=was_emitted)] if was_emitted else []
            # The rules are about windows without their end; these are with it.
            slot.end += 1
            out = self._publish(slot, before, (slot.key, slot.end - 1) in there, watermark, now)
            slot.end -= 1
            if out:
                key, start, end, *rest = out[-1][:-1]
                slot.emitted = (key, start, end - 1, *rest)
                out[-1] = (*slot.emitted, "+")
            emitted += out
            if slot.end + 1 + self.rules.within <= watermark:
                self.slots.remove(slot)
        return emitted


class CountingOracle:
    """Windows of a fixed number of rows per key, by time and then by `tie`. Each step assigns all rows again."""

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
        emitted = []
        for key in {*self.rows, *(row[0] for row in fresh)}:
            emitted += self._step_key(key, [row for row in fresh if row[0] == key], watermark, now)
        return emitted

    def _step_key(self, key: str, fresh: list[Row], watermark: float, now: int) -> list[tuple[Any, ...]]:
        marked = [(row, False) for row in self.rows.get(key, [])] + [(row, True) for row in fresh]
        marked.sort(key=lambda each: (each[0][1], self.tie(each[0])))
        self.rows[key] = [row for row, _ in marked]
        emitted = []
        for number in range(-(-len(marked) // self.count)):
            inside = self.rows[key][number * self.count : (number + 1) * self.count]
            slot = self.windows.setdefault((key, number), Slot(key, 0, 0))
            slot.start, slot.end, slot.rows = inside[0][1], inside[-1][1], inside
            came = sum(is_fresh for _, is_fresh in marked[: number * self.count + len(inside)])
            self.changes[key, number] = min(self.changes.get((key, number), 0) + came, len(inside))
            emitted += self._publish(slot, number, watermark, now)
        return emitted

    def _publish(self, slot: Slot, number: int, watermark: float, now: int) -> list[tuple[Any, ...]]:
        rules, changes = self.rules, self.changes[slot.key, number]
        is_full = len(slot.rows) == self.count
        is_over = is_full and slot.end + 1 <= watermark
        if slot.done != is_over:
            slot.fired = 0
        if changes:
            slot.first = min(slot.first, now)
        on_time = publish = is_over and not slot.done
        pane = "on time" if publish else "late" if is_over else "early"
        publish |= rules.wants(is_over=is_over, fired=slot.fired, rows=changes, first=slot.first, now=now)
        publish |= changes > 0 and is_full and slot.end + 1 + rules.within <= watermark
        publish |= self.emits_rest and watermark >= END and not is_full and (changes > 0 or not slot.revision)
        slot.done |= is_over
        if not publish:
            return []
        emitted = [(*slot.emitted, "-")] if slot.emitted else []
        slot.emitted = (slot.key, slot.start, slot.end, *results(slot.rows), pane, slot.revision)
        slot.revision += 1
        slot.fired = 0 if on_time else slot.fired + 1
        slot.first = math.inf
        self.changes[slot.key, number] = 0
        return [*emitted, (*slot.emitted, "+")]


def clock(length: int, every: int, offset: int = 0) -> Assign:
    """Every possible window, one by one."""

    def assign(time: int) -> list[tuple[int, int]]:
        first = (time - length - offset) // every - 1
        starts = (number * every + offset for number in range(first, first + length // every + 5))
        return [(start, start + length) for start in starts if start <= time < start + length]

    return assign
