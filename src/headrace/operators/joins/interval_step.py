"""The step of joins of two streams: each new row is matched with the rows of the other side that have its key and a
time within an interval, those of the state and those that are new.

A row is stored under its key, its side and its time, so the rows that may match another one are a range of ids. It is
written once: it expires when the watermark shows that no match can arrive any more. Whether it has a match depends on
its id only, so the first match of a stored row adds a small row, the mark, with the same id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Literal

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headrace.operators.state.expiring import DUE, ExpiringTable
from headrace.operators.state.ids import (
    Hashes,
    Ids,
    Ints,
    Mask,
    contains,
    distinct,
    ids_of,
    is_first,
    mixed,
    ranges,
)
from headrace.operators.state.run import COLUMN, ID, LABEL, Run, ids_column
from headrace.operators.state.step import END_US, Step, StepResult, StepTime
from headrace.operators.state.table import (
    HASHES,
    StateTable,
    column_of,
    filled,
    hashes_of,
    ints_of,
    state_schema,
)

NO_TIME_US = END_US
"""The time of a row without one: never late, and never stored."""

LEFT, RIGHT = 0, 1
UNMATCHABLE = 2
"""Added to the side of a row without a key or without a time: it matches nothing."""

_KEY_BITS_UNUSED = np.uint64(12)
"""The real part of an id has 52 bits of the first hash, and the side."""

Source = Literal["left", "right", "either"]


class Kept(IntEnum):
    """The kind of a state row."""

    WITHOUT_MATCH = 0
    """A row that had no match when it was written. It may have a mark."""
    DONE = 1
    """A row that is never emitted without a match."""
    MARK = 2
    """All rows of this id have a match."""


class IntervalRules(Struct, frozen=True, kw_only=True):
    low_us: int
    """The least time of a matching right row, less that of the left row."""
    high_us: int
    """The greatest."""
    emits_pairs: bool = True
    keeps: tuple[bool, bool] = (False, False)
    """Whether the rows of the left and of the right side are also emitted without a match, once none can arrive."""

    def due_us(self, side: Ints, times_us: Ints) -> Ints:
        """The watermark at which no match can arrive any more."""
        return times_us + self._open_us(side)

    def times_us(self, side: Ints, due_us: Ints) -> Ints:
        return due_us - self._open_us(side)

    def _open_us(self, side: Ints) -> Ints:
        return np.where(side == LEFT, self.high_us + 1, 1 - self.low_us)

    def matching_us(self, side: Ints, times_us: Ints) -> tuple[Ints, Ints]:
        """The first and the last time of matching rows of the other side."""
        is_left = side == LEFT
        first = times_us + np.where(is_left, self.low_us, -self.high_us)
        return first, times_us + np.where(is_left, self.high_us, -self.low_us)

    def kept_alone(self, side: Ints) -> Mask:
        return np.asarray(self.keeps)[side]


class ResultColumn(Struct, frozen=True, kw_only=True):
    """A column of the result: the value of this input column in the row of a side, or in the row that there is."""

    name: str
    column: str
    of: Source


class IntervalStep(Step):
    """The input has `h1`, `h2` (the hashes of the key), `side`, `time`, the keys `k0`…, the other columns of the left
    rows `l0`…, and those of the right rows `r0`…
    """

    expires = True
    due_column = DUE

    def __init__(
        self,
        *,
        rules: IntervalRules,
        keys: Sequence[pa.Field],
        left: Sequence[pa.Field],
        right: Sequence[pa.Field],
        results: Sequence[ResultColumn],
    ) -> None:
        self.rules = rules
        self.results = results
        payload = [
            *_numbered("k", keys, COLUMN),
            *_numbered("l", left, LABEL),
            *_numbered("r", right, LABEL, owner="other."),
        ]
        side = pa.field("side", pa.int8())
        numbers = [pa.field(name, pa.int64()) for name in (*HASHES, "time")]
        self.input_schema = pa.schema([*numbers, side, *payload])
        own = [pa.field("h2", pa.int64()), pa.field(DUE, pa.int64()), side, pa.field("kept", pa.int8())]
        self.state_schema = state_schema([*own, *payload])
        types = {each.name: each.type for each in payload}
        self.output_schema = pa.schema([pa.field(each.name, types[each.column]) for each in results])

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        assert isinstance(table, ExpiringTable)
        late = ints_of(rows, "time") < time.late_us
        if late.any():
            rows = rows.filter(pa.array(~late))
        unmatchable = ints_of(rows, "side") >= UNMATCHABLE
        alone = []
        if unmatchable.any():
            alone = list(self._without_match(rows.filter(pa.array(unmatchable)).combine_chunks()))
            rows = rows.filter(pa.array(~unmatchable))
        matches = _Matches(self, table, rows, time.watermark_us)
        return StepResult(
            rows=matches.kept(),
            deleted=np.empty(0, dtype=np.complex128),
            output=pa.concat_tables([self.output_schema.empty_table(), *matches.output(), *alone]),
            late_rows=int(late.sum()),
        )

    def _without_match(self, rows: pa.Table) -> Iterator[pa.Table]:
        side = ints_of(rows, "side") - UNMATCHABLE
        positions = np.arange(len(side))
        yield self.emitted((rows, positions[(side == LEFT) & self.rules.keeps[LEFT]]), None)
        yield self.emitted(None, (rows, positions[(side == RIGHT) & self.rules.keeps[RIGHT]]))

    def emitted(self, left: tuple[pa.Table, Ints] | None, right: tuple[pa.Table, Ints] | None) -> pa.Table:
        """Rows of the result: pairs of rows at these positions, or rows of one side without a match."""
        there = left or right
        assert there is not None
        sources = {"left": left, "right": right, "either": there}
        columns = []
        for each, field in zip(self.results, self.output_schema, strict=True):
            source = sources[each.of]
            if source is None:
                columns.append(pa.nulls(len(there[1]), field.type))
            else:
                columns.append(column_of(source[0], each.column).take(pa.array(source[1])))
        return pa.table(columns, schema=self.output_schema)


class _Matches:
    """The matches of one step: the new rows, sorted by id, and the rows of the state."""

    def __init__(self, step: IntervalStep, table: ExpiringTable, rows: pa.Table, watermark_us: int) -> None:
        self._step = step
        self._rules = step.rules
        self._watermark_us = watermark_us
        self._sort(rows)
        self._due_us = self._rules.due_us(self._side, self._times_us)
        self._is_matched = np.zeros(len(self._ids), dtype=np.bool_)
        self._blocks: list[pa.Table] = []
        self._among_new()
        self._stored = [_Stored(run, table, step.rules, watermark_us) for run in table.runs]
        for stored in self._stored:
            self._with(stored)

    def _sort(self, rows: pa.Table) -> None:
        first, _ = hashes_of(rows)
        side, times_us = ints_of(rows, "side"), ints_of(rows, "time")
        ids = stored_ids(first, side, times_us)
        order = np.argsort(ids, kind="stable")
        self._rows = rows.take(pa.array(order)).combine_chunks()
        self._ids, self._side, self._times_us = ids[order], side[order], times_us[order]
        self._h2 = ints_of(self._rows, "h2")
        first_us, last_us = self._rules.matching_us(self._side, self._times_us)
        self._first_us, self._last_us = first_us, last_us
        self._first, self._last = (_beside(self._ids, self._side, each) for each in (first_us, last_us))

    def _among_new(self) -> None:
        left = np.flatnonzero(self._side == LEFT)
        at, found = self._found(left, self._ids, self._h2, self._times_us)
        self._is_matched[at] = True
        self._is_matched[found] = True
        self._emit((self._rows, at), (self._rows, found))

    def _with(self, stored: _Stored) -> None:
        at, found = self._found(np.arange(len(self._ids)), stored.run.ids, stored.h2, stored.times_us)
        is_row = stored.is_row[found]
        at, found = at[is_row], found[is_row]
        self._is_matched[at] = True
        stored.matched(found)
        is_left = self._side[at] == LEFT
        self._emit((self._rows, at[is_left]), (stored.run.rows, found[is_left]))
        self._emit((stored.run.rows, found[~is_left]), (self._rows, at[~is_left]))

    def _found(self, rows: Ints, ids: Ids, h2: Ints, times_us: Ints) -> tuple[Ints, Ints]:
        """The pairs of these new rows and of the rows with the sorted ids, as positions."""
        if len(rows) == 0 or len(ids) == 0:
            return rows[:0], rows[:0]
        start = np.searchsorted(ids, self._first[rows])
        has_any = ids[np.minimum(start, len(ids) - 1)] <= self._last[rows]
        has_any &= start < len(ids)
        rows, start = rows[has_any], start[has_any]
        end = np.searchsorted(ids, self._last[rows], side="right")
        at, found = np.repeat(rows, end - start), ranges(start, end)
        is_pair = (
            (self._h2[at] == h2[found])
            & (self._first_us[at] <= times_us[found])
            & (times_us[found] <= self._last_us[at])
        )
        return at[is_pair], found[is_pair]

    def _emit(self, left: tuple[pa.Table, Ints], right: tuple[pa.Table, Ints]) -> None:
        if self._rules.emits_pairs and len(left[1]):
            self._blocks.append(self._step.emitted(left, right))

    def output(self) -> Iterator[pa.Table]:
        yield from self._blocks
        is_due = ~self._is_matched & (self._due_us <= self._watermark_us)
        yield from self._alone(self._rows, self._side, is_due)
        expiring = [each for each in self._stored if len(each.expiring)]
        if not expiring:
            return
        marks = distinct(np.concatenate([each.marks() for each in self._stored]))
        for each in expiring:
            is_alone = np.zeros(len(each.side), dtype=np.bool_)
            is_alone[each.expiring] = ~contains(marks, each.identities(each.expiring))
            yield from self._alone(each.run.rows, each.side, is_alone)

    def _alone(self, rows: pa.Table, side: Ints, is_alone: Mask) -> Iterator[pa.Table]:
        for own in (LEFT, RIGHT):
            if self._rules.keeps[own]:
                chosen = rows, np.flatnonzero(is_alone & (side == own))
                if len(chosen[1]):
                    yield self._step.emitted(*((chosen, None) if own == LEFT else (None, chosen)))

    def kept(self) -> pa.Table:
        """The rows that are added to the state."""
        rules, schema = self._rules, self._step.state_schema
        is_kept = self._due_us > self._watermark_us
        if not rules.emits_pairs:
            is_kept &= ~(self._is_matched & rules.kept_alone(self._side))
        rows = self._rows.filter(pa.array(is_kept)).combine_chunks()
        waits = rules.kept_alone(self._side) & ~self._is_matched
        columns = {name: rows.column(name) for name in rows.column_names} | {
            ID: ids_column(self._ids[is_kept]),
            DUE: pa.array(self._due_us[is_kept]),
            "kept": pa.array(np.where(waits[is_kept], Kept.WITHOUT_MATCH, Kept.DONE).astype(np.int8)),
        }
        added = pa.table([columns[each.name] for each in schema], schema=schema)
        return pa.concat_tables([added, *(each.new_marks(schema) for each in self._stored)]).combine_chunks()


class _Stored:
    """A run of the state, and which of its rows found their first match in this step."""

    def __init__(self, run: Run, table: ExpiringTable, rules: IntervalRules, watermark_us: int) -> None:
        self.run = run
        self._watermark_us = watermark_us
        self._due_us = run.ints(DUE)
        self._kept = run.ints("kept")
        self._is_live = table.live(run)
        self.h2 = run.ints("h2")
        self.side = run.ints("side")
        self.times_us = rules.times_us(self.side, self._due_us)
        self.is_row = self._is_live & (self._kept != Kept.MARK)
        self._waits = self._is_live & (self._kept == Kept.WITHOUT_MATCH)

    def matched(self, positions: Ints) -> None:
        self._waits[positions] = False

    @property
    def expiring(self) -> Ints:
        """The positions of rows that expire in this step and have no match, as far as this run shows."""
        return np.flatnonzero(self._waits & (self._due_us <= self._watermark_us))

    def marks(self) -> Ids:
        """The identities of the rows that the marks in this run are for."""
        return self.identities(np.flatnonzero(self._is_live & (self._kept == Kept.MARK)))

    def identities(self, positions: Ints) -> Ids:
        """Equal for rows of one side with the same key and time. Ids have only a part of the hashes."""
        found = self.run.ids[positions]
        hashes = mixed(self.h2[positions].view(np.uint64), self.times_us[positions])
        found.imag = ids_of(hashes, hashes).imag
        return found

    def new_marks(self, schema: pa.Schema) -> pa.Table:
        """Marks for the rows that found their first match in this step."""
        is_new = self._is_live & (self._kept == Kept.WITHOUT_MATCH) & ~self._waits
        positions = np.flatnonzero(is_new & (self._due_us > self._watermark_us))
        positions = positions[is_first(self.run.ids[positions], self.h2[positions])]
        columns = {
            name: self.run.rows.column(name).take(pa.array(positions)) for name in (ID, "h2", DUE, "side")
        }
        return filled(schema, columns, len(positions), {"kept": int(Kept.MARK)})


def stored_ids(first: Hashes, side: Ints, times_us: Ints) -> Ids:
    """The ids of rows in the state: the key and the side, and then the time, which is rounded after the year 2255."""
    ids = np.empty(len(first), dtype=np.complex128)
    ids.real = (first >> _KEY_BITS_UNUSED).astype(np.float64) * 2 + side
    ids.imag = times_us
    return ids


def _beside(ids: Ids, side: Ints, times_us: Ints) -> Ids:
    """The ids of the other side's rows with the same keys and these times."""
    found = np.empty(len(ids), dtype=np.complex128)
    found.real = ids.real + np.where(side == LEFT, 1, -1)
    found.imag = times_us
    return found


def _numbered(prefix: str, fields: Sequence[pa.Field], kind: bytes, *, owner: str = "") -> list[pa.Field]:
    return [
        pa.field(f"{prefix}{number}", each.type, metadata={kind: f"{owner}{each.name}".encode()})
        for number, each in enumerate(fields)
    ]
