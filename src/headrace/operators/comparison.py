"""The step that compares the result of a window with the result of an earlier window.

A slot is one window of one key. A result goes to two slots: to the slot of its own window, and, as the earlier result,
to the slot of the later window. So a slot has both results, and no lookup is needed. A slot is deleted when its own
window accepts no more rows. Its state has the last emitted comparison, which is retracted when one of the two results
changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headrace.operators.folds import Columns
from headrace.operators.state.ids import Hashes, Ids, Ints, Mask, contains, distinct, ids_of, mixed
from headrace.operators.state.run import COLUMN, LABEL, ids_column
from headrace.operators.state.step import Step, StepResult, StepTime
from headrace.operators.state.table import StateTable, hashes_of, ids_in, state_schema

NONE = -1
"""The position or revision of a missing row."""


class Compared(Struct, frozen=True, kw_only=True):
    """The columns of results, and the columns that are compared."""

    columns: Sequence[pa.Field]
    keys: Sequence[int]
    """The numbers of the key columns."""
    before: Sequence[tuple[int, str]]
    """The numbers of the compared columns, with the names of the earlier values."""

    def names(self) -> list[str]:
        return [f"c{number}" for number in range(len(self.columns))]

    def fields(self) -> list[pa.Field]:
        return [
            pa.field(f"c{number}", each.type, metadata={self._kind(number): each.name.encode()})
            for number, each in enumerate(self.columns)
        ]

    def _kind(self, number: int) -> bytes:
        return COLUMN if number in self.keys else LABEL

    def before_fields(self) -> list[pa.Field]:
        return [
            pa.field(f"b{number}", self.columns[number].type, metadata={LABEL: name.encode()})
            for number, name in self.before
        ]


class ComparisonLift:
    """The lift of results.

    Rows have `h1`, `h2`, `start` and `end` of their window, `later_start` and `later_end` of the later window that is
    compared with it, `revision`, `is_retraction`, and the columns of results as `c0`…
    """

    def __init__(self, compared: Compared, schema: pa.Schema) -> None:
        self._compared = compared
        self._schema = schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        first, second = hashes_of(rows)
        needed = {
            f"c{number}" for number in (*self._compared.keys, *(each[0] for each in self._compared.before))
        }
        parts = []
        for is_before, start, end in ((False, "start", "end"), (True, "later_start", "later_end")):
            starts_us = np.asarray(rows.column(start))
            columns = [
                ids_column(ids_of(mixed(first, starts_us), mixed(second, starts_us))),
                rows.column(end),
                pa.repeat(pa.scalar(is_before), rows.num_rows),
                *(rows.column(name) for name in ("revision", "is_retraction")),
                *(
                    rows.column(each.name)
                    if each.name in needed or not is_before
                    else pa.nulls(rows.num_rows, each.type)
                    for each in self._compared.fields()
                ),
            ]
            parts.append(pa.table(columns, schema=self._schema))
        return pa.concat_tables(parts).combine_chunks(), np.concatenate([first, first])


class ComparisonStep(Step):
    due_column = "due_us"

    def __init__(self, compared: Compared, *, within_us: int) -> None:
        self.compared = compared
        self.within_us = within_us
        fields = compared.fields()
        self.input_schema = state_schema(
            [
                pa.field("end", pa.int64()),
                pa.field("is_before", pa.bool_()),
                pa.field("revision", pa.int32()),
                pa.field("is_retraction", pa.bool_()),
                *fields,
            ]
        )
        self.state_schema = state_schema(
            [
                pa.field("due_us", pa.int64()),
                pa.field("said", pa.int32()),  # how many times the comparison was emitted
                pa.field("revision", pa.int32()),  # of the result, or NONE
                pa.field("revision_before", pa.int32()),  # of the earlier result, or NONE
                *fields,
                *compared.before_fields(),
            ]
        )
        self.output_schema = pa.schema(
            [
                *(pa.field(each.name, each.type) for each in compared.columns),
                *(pa.field(name, compared.columns[number].type) for number, name in compared.before),
            ]
        )

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        ids = distinct(np.concatenate([ids_in(rows), table.due("due_us", time.watermark_us)]))
        kept = table.take(ids).combine_chunks()
        slots = Comparisons(self, ids, kept, rows.combine_chunks(), time)
        after = slots.kept()
        deleted = ids_in(kept)
        deleted = distinct(deleted[~contains(distinct(ids_in(after)), deleted)])
        return StepResult(rows=after, deleted=deleted, output=slots.output(), late_rows=slots.late_rows)


class Side:
    """The result of one of the two windows, for each slot: the newest of the state and the new rows.

    `taken` is the position of its row in the state followed by the new rows, or NONE.
    """

    def __init__(self, kept_at: Ints, revision: Ints, newest: Ints, rows: pa.Table, kept_count: int) -> None:
        has_new = newest >= 0
        revisions = np.asarray(rows.column("revision")).astype(np.int64)
        new_revision = np.append(revisions, NONE)[newest]  # index NONE is the last element
        is_retraction = np.append(np.asarray(rows.column("is_retraction")), False)[newest]
        self.existed = revision >= 0
        self.is_new: Mask = has_new & (new_revision >= revision)
        self.revision = np.where(self.is_new, np.where(is_retraction, NONE, new_revision), revision)
        self.exists = self.revision >= 0
        taken = np.where(self.is_new, newest + kept_count, kept_at)
        self.taken = np.where(self.exists, taken, NONE)
        self.emitted_at = np.where(self.existed, kept_at, NONE)


class Comparisons:
    """The slots that a step touches, as columns."""

    def __init__(
        self, step: ComparisonStep, ids: Ids, kept: pa.Table, rows: pa.Table, time: StepTime
    ) -> None:
        self._step = step
        self._ids = ids
        self._time = time
        kept_at = np.full(len(ids), NONE)
        kept_at[np.searchsorted(ids, ids_in(kept))] = np.arange(kept.num_rows)
        self._due_us = _spread(kept, "due_us", kept_at, np.iinfo(np.int64).min)
        slots = np.searchsorted(ids, ids_in(rows))
        np.maximum.at(self._due_us, slots, np.asarray(rows.column("end")) + step.within_us)
        self._emitted = _spread(kept, "said", kept_at, 0)
        known = _spread(kept, "revision", kept_at, NONE)
        is_before = np.asarray(rows.column("is_before"))
        rows, slots, is_before = self._in_time(rows, slots, is_before, kept_at)
        self._now = Side(kept_at, known, _newest(rows, slots, ~is_before, len(ids)), rows, kept.num_rows)
        known_before = _spread(kept, "revision_before", kept_at, NONE)
        newest = _newest(rows, slots, is_before, len(ids))
        self._before = Side(kept_at, known_before, newest, rows, kept.num_rows)
        self._join(kept, rows)

    def _in_time(
        self, rows: pa.Table, slots: Ints, is_before: Mask, kept_at: Ints
    ) -> tuple[pa.Table, Ints, Mask]:
        """The rows without corrections of deleted slots, because their emitted comparison can't be retracted."""
        is_correction = ~is_before & (np.asarray(rows.column("revision")) > 0)
        is_over = self._due_us[slots] <= self._time.late_us
        too_late = is_correction & is_over & (kept_at[slots] == NONE)
        self.late_rows = int(too_late.sum())
        if self.late_rows == 0:
            return rows, slots, is_before
        return rows.filter(pa.array(~too_late)).combine_chunks(), slots[~too_late], is_before[~too_late]

    def _join(self, kept: pa.Table, rows: pa.Table) -> None:
        """The columns of results and of earlier results: first the state, then the new rows."""
        names = self._step.compared.names()
        self._columns = [_concatenated(kept.column(name), rows.column(name)) for name in names]
        self._earlier = [
            _concatenated(kept.column(f"b{number}"), rows.column(f"c{number}"))
            for number, _ in self._step.compared.before
        ]

    def _taken(self, now: Ints, before: Ints) -> tuple[Columns, Columns]:
        """The columns at these positions. The key of a slot without an own result is from the earlier result."""
        now_at, before_at, key_at = (
            pa.array(each, mask=each == NONE) for each in (now, before, np.where(now == NONE, before, now))
        )
        columns = [
            each.take(key_at if number in self._step.compared.keys else now_at)
            for number, each in enumerate(self._columns)
        ]
        return columns, [each.take(before_at) for each in self._earlier]

    def output(self) -> pa.Table:
        is_new = self._now.is_new | self._before.is_new
        parts = []
        for side, op in ((is_new & self._now.existed, "-"), (is_new & self._now.exists, "+")):
            is_past = op == "-"
            now = self._now.emitted_at if is_past else self._now.taken
            before = self._before.emitted_at if is_past else self._before.taken
            revision = self._emitted - 1 if is_past else self._emitted
            parts.append(self._shown(now[side], before[side], revision[side], op))
        return pa.concat_tables(parts)

    def _shown(self, now: Ints, before: Ints, revision: Ints, op: str) -> pa.Table:
        columns, earlier = self._taken(now, before)
        watermark_us = self._time.watermark_us if abs(self._time.watermark_us) < 2**61 else None
        overrides = {
            "revision": pa.array(revision.astype(np.int32)),
            "op": pa.repeat(pa.scalar(op), len(now)),
            "watermark": pa.repeat(pa.scalar(watermark_us, pa.int64()), len(now)),
        }
        shown = [
            overrides[field.name].cast(field.type) if field.name in overrides else column
            for field, column in zip(self._step.compared.columns, columns, strict=True)
        ]
        return pa.table([*shown, *earlier], schema=self._step.output_schema)

    def kept(self) -> pa.Table:
        lives = (self._now.exists | self._before.exists) & (self._due_us > self._time.watermark_us)
        columns, earlier = self._taken(self._now.taken[lives], self._before.taken[lives])
        is_new = self._now.is_new | self._before.is_new
        emitted = self._emitted + (is_new & self._now.exists)
        revisions = [
            each[lives].astype(np.int32) for each in (emitted, self._now.revision, self._before.revision)
        ]
        return pa.table(
            [
                ids_column(self._ids[lives]),
                pa.array(self._due_us[lives]),
                *map(pa.array, revisions),
                *columns,
                *earlier,
            ],
            schema=self._step.state_schema,
        )


def _spread(kept: pa.Table, name: str, kept_at: Ints, otherwise: int) -> Ints:
    """A column of the state, spread over all slots."""
    numbers = np.append(np.asarray(kept.column(name)).astype(np.int64), otherwise)
    return numbers[kept_at]  # index NONE is the last element


def _newest(rows: pa.Table, slots: Ints, side: Mask, count: int) -> Ints:
    """The position of each slot's newest row of this side. A retraction sorts after the result that it retracts."""
    revision, is_retraction = (np.asarray(rows.column(name)) for name in ("revision", "is_retraction"))
    positions = np.flatnonzero(side)
    order = positions[np.lexsort((is_retraction[positions], revision[positions], slots[positions]))]
    newest = np.full(count, NONE)
    newest[slots[order]] = order  # of several rows, numpy assigns the last
    return newest


def _concatenated(kept: pa.ChunkedArray, new: pa.ChunkedArray) -> pa.Array:
    chunks = [*kept.chunks, *new.chunks]
    return pa.concat_arrays(chunks) if chunks else pa.array([], kept.type)
