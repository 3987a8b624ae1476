"""The step of windows with several panes: early, on time and late, each with a retraction of the previous pane.

A slot is one window of one key. Its state has the folds and the last emitted pane. A step merges new rows into the
state, decides which slots to emit, and returns the new state. It processes all slots of a bucket at once, as columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headrace.operators.folds import Columns, CompletenessFold, Fold
from headrace.operators.late_rows import LATE_ROWS, UTC_TIME
from headrace.operators.state.ids import Ids, Ints, Mask, contains, segment_starts
from headrace.operators.state.run import COLUMN, LABEL, NEVER, ids_column
from headrace.operators.state.step import StepResult, StepTime
from headrace.operators.state.table import StateTable, ids_in, state_schema
from headrace.operators.triggers import Pane, Panes

ORIGINALS = "originals"
"""The input column with the rows that were merged into a slot, for the side output of late rows; not in the state."""

_PANES = tuple(Pane)


class PaneRules(Struct, frozen=True, kw_only=True):
    """When to emit panes, and how long to accept late rows."""

    within_us: int = 0
    """The allowed lateness: how long after its end a window accepts late rows; 0 for not at all."""
    early_rows: int | None = None
    early_us: int | None = None
    late_us: int = 0
    panes: Panes = "retracting"
    keeps_late: bool = False
    """Whether dropped late rows are returned, not only counted."""


class PaneStep:
    """The step of slots. With `merges_overlaps`, overlapping slots of a key are merged, as for sessions.

    The input has `id`, the key columns, `start`, `end`, `rows` (how many rows were merged into it), and the folds.
    """

    version = 1
    due_column = "due_us"
    shown_before_us = 0
    """How much earlier the emitted bounds of a window are than the internal ones."""

    def __init__(
        self,
        *,
        keys: Sequence[pa.Field],
        folds: Sequence[tuple[str, Fold]],
        rules: PaneRules,
        merges_overlaps: bool = False,
    ) -> None:
        self.rules = rules
        self.merges_overlaps = merges_overlaps
        self.keys = [f"k{number}" for number in range(len(keys))]
        self.folds = [fold for _, fold in folds]
        self.completeness = [
            (number, fold) for number, fold in enumerate(self.folds) if isinstance(fold, CompletenessFold)
        ]
        self.retracts = rules.panes == "retracting"
        key_fields = [
            pa.field(name, each.type, metadata={COLUMN: each.name.encode()})
            for name, each in zip(self.keys, keys, strict=True)
        ]
        slot_fields = [
            *key_fields,
            *(pa.field(name, pa.int64()) for name in ("start", "end", "rows")),
            *_fold_fields(folds),
        ]
        originals = [pa.field(ORIGINALS, pa.list_(pa.string()))] if rules.keeps_late else []
        self.input_schema = state_schema([*slot_fields, *originals])
        self.state_schema = state_schema([*slot_fields, *self._pane_fields()])
        self.output_schema = pa.schema(
            [
                *(pa.field(each.name, each.type) for each in keys),
                pa.field("window_start", UTC_TIME),
                pa.field("window_end", UTC_TIME),
                *(pa.field(name, fold.result_type) for name, fold in folds),
                pa.field("pane", pa.string()),
                pa.field("revision", pa.int32()),
                pa.field("op", pa.string()),
                pa.field("watermark", UTC_TIME),
            ]
        )

    @property
    def wake_column(self) -> str | None:
        return "wake_us" if self.rules.early_us or self.rules.late_us else None

    def migrate(self, rows: pa.Table, version: int) -> pa.Table:
        raise AssertionError(f"there never was a version {version}")

    def _pane_fields(self) -> list[pa.Field]:
        fields = [
            pa.field("due_us", pa.int64()),
            pa.field("wake_us", pa.int64()),
            pa.field("is_done", pa.bool_()),  # its on-time pane was emitted
            pa.field("revision", pa.int32()),  # how many panes were emitted
            pa.field("rows_out", pa.int64()),  # how many rows the last pane had
        ]
        if self.retracts:
            fields += [pa.field(name, pa.int64()) for name in ("start_out", "end_out")]
            fields += [pa.field("pane_out", pa.int8())]
            fields += [pa.field(f"out{number}", fold.result_type) for number, fold in enumerate(self.folds)]
        return fields

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        ends_us, row_counts = ints_of(rows, "end"), ints_of(rows, "rows")
        is_over = ends_us <= time.watermark_us
        too_late = ends_us + self.rules.within_us <= time.watermark_us
        counts = {
            "rows_in": int(row_counts.sum()),
            "corrected_rows": int(row_counts[is_over & ~too_late].sum()),
            "late_rows": int(row_counts[too_late].sum()),
        }
        rows = self._with_lateness(rows, is_over)
        late = None
        if too_late.any():
            late = self.late_of(rows.filter(pa.array(too_late)), time) if self.rules.keeps_late else None
            rows = rows.filter(pa.array(~too_late))
        ids = np.unique(np.concatenate([ids_in(rows), *self._due(table, time)]))
        if len(ids) == 0:
            return StepResult(
                rows=self.state_schema.empty_table(),
                deleted=ids,
                output=self.output_schema.empty_table(),
                late=late,
                **counts,
            )
        before = table.take(ids)
        slots = self.slots_of(before, rows, time)
        kept = slots.kept()
        deleted = ids_in(before)
        deleted = np.unique(deleted[~contains(np.unique(ids_in(kept)), deleted)])
        return StepResult(rows=kept, deleted=deleted, output=slots.output(), late=late, **counts)

    def _with_lateness(self, rows: pa.Table, is_over: Mask) -> pa.Table:
        """The rows, with their lateness in the states of completeness folds."""
        for number, fold in self.completeness:
            names = [f"f{number}_{part}" for part in range(len(fold.state))]
            columns = fold.with_lateness([column_of(rows, name) for name in names], is_over)
            for name, column in zip(names, columns, strict=True):
                rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)
        return rows

    def late_of(self, rows: pa.Table, time: StepTime) -> pa.Table:
        """The original rows of these slots, one row each."""
        originals = column_of(rows, ORIGINALS)
        counts = np.asarray(originals.value_lengths())
        bounds = [np.repeat(ints_of(rows, name), counts) - self.shown_before_us for name in ("start", "end")]
        watermark = np.full(int(counts.sum()), time.watermark_us)
        times = [pa.array(each).cast(UTC_TIME) for each in (*bounds, watermark)]
        return pa.table([*times, originals.flatten()], schema=LATE_ROWS)

    def slots_of(self, before: pa.Table, rows: pa.Table, time: StepTime) -> Slots:
        return Slots(self, before, rows, time)

    def _due(self, table: StateTable, time: StepTime) -> list[Ids]:
        due = [table.due("due_us", time.watermark_us)]
        if self.wake_column:
            due.append(table.due("wake_us", time.now_us))
        return due


class Slots:
    """The slots of one step: state and new rows, sorted and merged into one row per slot."""

    def __init__(self, step: PaneStep, before: pa.Table, rows: pa.Table, time: StepTime) -> None:
        self._step = step
        self._rules = step.rules
        self._time = time
        parts = [before, _as_state(rows, step.state_schema)]
        together = pa.concat_tables(parts).combine_chunks()
        is_state = np.arange(together.num_rows) < before.num_rows
        order, self._starts = self._sort(together)
        self._sorted = together.take(pa.array(order)).combine_chunks()
        self._is_state = is_state[order]
        self._merge()
        self._decide()

    def _sort(self, together: pa.Table) -> tuple[Ints, Ints]:
        """An order in which the rows of a slot are adjacent, and the start of each slot."""
        ids = ids_in(together)
        if not self._step.merges_overlaps:
            order = np.argsort(ids, kind="stable")
            return order, segment_starts(ids[order])
        starts, ends = ints_of(together, "start"), ints_of(together, "end")
        order = np.lexsort((starts, ids))
        return order, _overlap_starts(ids[order], starts[order], ends[order])

    def _merge(self) -> None:
        starts, sorted_rows = self._starts, self._sorted
        self.start = np.minimum.reduceat(ints_of(sorted_rows, "start"), starts)
        self.end = np.maximum.reduceat(ints_of(sorted_rows, "end"), starts)
        self.rows = np.add.reduceat(ints_of(sorted_rows, "rows"), starts)
        self.rows_out = np.add.reduceat(ints_of(sorted_rows, "rows_out"), starts)
        self.revision = np.maximum.reduceat(ints_of(sorted_rows, "revision"), starts)
        self.wake_us = np.minimum.reduceat(ints_of(sorted_rows, "wake_us"), starts)
        self.is_done = np.logical_or.reduceat(np.asarray(sorted_rows.column("is_done")), starts)
        self.existed = np.logical_or.reduceat(self._is_state, starts)
        self._was_emitted = self._is_state & (ints_of(sorted_rows, "revision") > 0)
        self.emitted_count = np.add.reduceat(self._was_emitted.astype(np.int64), starts)
        self.folded: list[Columns] = []
        for number, fold in enumerate(self._step.folds):
            columns = [column_of(sorted_rows, f"f{number}_{part}") for part in range(len(fold.state))]
            self.folded.append(fold.merge(columns, starts))
        self.rows_kept = self.rows
        self.emitted_states = self.folded
        self.delete_us = self.end + self._rules.within_us

    def _decide(self) -> None:
        """Decide which slots are emitted, and with which pane."""
        rules, watermark_us, now_us = self._rules, self._time.watermark_us, self._time.now_us
        self.is_over = self.end <= watermark_us
        self.is_expired = self.end + rules.within_us <= watermark_us
        self.changed = changed = self.rows > self.rows_out
        # A late row may extend a closed session beyond the watermark: the session is open again.
        done = self.is_done & self.is_over
        self.on_time = self.is_over & ~done & self.existed
        interval_us = np.where(self.is_over, rules.late_us, rules.early_us or NEVER)
        with np.errstate(over="ignore"):
            woken_us = np.where(interval_us == NEVER, NEVER, now_us + interval_us)
        pending = np.minimum(np.where(changed, woken_us, NEVER), self.wake_us)
        self.wake_us = np.where(changed, pending, NEVER)
        emits = self.on_time | (changed & ((self.wake_us <= now_us) | self.is_expired))
        if rules.early_rows is not None:
            emits |= ~self.is_over & (self.rows - self.rows_out >= rules.early_rows)
        # Several emitted sessions were merged into one: their results must be retracted.
        emits |= self.emitted_count > 1
        if rules.panes == "discarding":
            emits &= changed
        self.emits: Mask = emits
        self.pane = np.where(self.is_over, np.where(self.on_time, 1, 2), 0).astype(np.int8)
        self.results = [
            fold.result(columns) for fold, columns in zip(self._step.folds, self.emitted_states, strict=True)
        ]

    def output(self) -> pa.Table:
        parts = [self._additions()]
        if self._step.retracts:
            retracted = self._was_emitted & np.repeat(self.emits, self._lengths())
            if retracted.any():
                parts.insert(0, self._retractions(retracted))
        return pa.concat_tables(parts)

    def _additions(self) -> pa.Table:
        emits = pa.array(self.emits)
        return self._output_rows(
            [each.filter(emits) for each in self._key_columns()],
            self.start[self.emits],
            self.end[self.emits],
            [each.filter(emits) for each in self.results],
            self.pane[self.emits],
            self.revision[self.emits],
            "+",
        )

    def _retractions(self, retracted: Mask) -> pa.Table:
        rows = self._sorted.filter(pa.array(retracted)).combine_chunks()
        return self._output_rows(
            [column_of(rows, name) for name in self._step.keys],
            ints_of(rows, "start_out"),
            ints_of(rows, "end_out"),
            [column_of(rows, f"out{number}") for number in range(len(self._step.folds))],
            ints_of(rows, "pane_out"),
            ints_of(rows, "revision") - 1,
            "-",
        )

    def _output_rows(
        self,
        keys: Columns,
        start: Ints,
        end: Ints,
        results: Columns,
        pane: Ints | npt.NDArray[np.int8],
        revision: Ints,
        op: str,
    ) -> pa.Table:
        count = len(start)
        watermark_us = self._time.watermark_us
        has_watermark = -(2**61) < watermark_us < 2**61
        columns = [
            *keys,
            pa.array(start - self._step.shown_before_us).cast(UTC_TIME),
            pa.array(end - self._step.shown_before_us).cast(UTC_TIME),
            *results,
            pa.array(np.array(_PANES, dtype=object)[pane], pa.string()),
            pa.array(revision.astype(np.int32)),
            pa.repeat(pa.scalar(op), count),
            pa.repeat(pa.scalar(watermark_us if has_watermark else None, pa.int64()), count).cast(UTC_TIME),
        ]
        return pa.table(columns, schema=self._step.output_schema)

    def kept(self) -> pa.Table:
        """The new state of the slots that are not deleted."""
        folded = self.folded
        if self._rules.panes == "discarding":
            folded = [
                _choose_all(self.emits, fold.empty(len(self.start)), columns)
                for fold, columns in zip(self._step.folds, folded, strict=True)
            ]
        # A pending change is emitted at the latest when the window accepts no more rows. The slot may be needed longer.
        waits = self.changed & ~self.emits
        over_us = np.where(waits, self.end + self._rules.within_us, self.delete_us)
        due_us = np.where(self.is_over, over_us, self.end)
        is_deleted = self.delete_us <= self._time.watermark_us
        columns = [
            ids_column(ids_in(self._sorted)[self._starts]),
            *self._key_columns(),
            *(pa.array(each) for each in (self.start, self.end, self.rows_kept)),
            *(column for columns in folded for column in columns),
            pa.array(due_us),
            pa.array(np.where(self.emits, NEVER, self.wake_us)),
            pa.array(self.is_over),
            pa.array((self.revision + self.emits).astype(np.int32)),
            pa.array(np.where(self.emits, self.rows, self.rows_out)),
        ]
        if self._step.retracts:
            columns += self._last_emitted()
        table = pa.table(columns, schema=self._step.state_schema)
        return table.filter(pa.array(~is_deleted)) if is_deleted.any() else table

    def _last_emitted(self) -> Columns:
        """The pane that the next pane retracts."""
        # At most one row of a slot was emitted before; otherwise the slot is emitted now.
        positions = np.where(self._was_emitted, np.arange(len(self._was_emitted)), -1)
        positions = np.maximum.reduceat(positions, self._starts)
        before = self._sorted.take(pa.array(positions, mask=positions < 0)).combine_chunks()
        now = [pa.array(self.start), pa.array(self.end), pa.array(self.pane), *self.results]
        names = ["start_out", "end_out", "pane_out", *(f"out{n}" for n in range(len(self.results)))]
        return _choose_all(self.emits, now, [column_of(before, name) for name in names])

    def _key_columns(self) -> Columns:
        first = pa.array(self._starts)
        return [column_of(self._sorted, name).take(first) for name in self._step.keys]

    def _lengths(self) -> Ints:
        return np.diff(np.append(self._starts, self._sorted.num_rows))


def _fold_fields(folds: Sequence[tuple[str, Fold]]) -> list[pa.Field]:
    return [
        pa.field(
            f"f{number}_{part}",
            kind,
            metadata={LABEL: (name if len(fold.state) == 1 else f"{name}.{part}").encode()},
        )
        for number, (name, fold) in enumerate(folds)
        for part, kind in enumerate(fold.state)
    ]


def _as_state(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """New rows in the columns of the state, without an emitted pane."""
    count = rows.num_rows
    defaults = {"due_us": NEVER, "wake_us": NEVER, "is_done": False, "revision": 0, "rows_out": 0}
    columns = []
    for field in schema:
        if field.name in rows.column_names:
            columns.append(rows.column(field.name))
        elif field.name in defaults:
            columns.append(pa.repeat(pa.scalar(defaults[field.name], field.type), count))
        else:
            columns.append(pa.nulls(count, field.type))
    return pa.table(columns, schema=schema)


def _overlap_starts(ids: Ids, starts: Ints, ends: Ints) -> Ints:
    """The start of each group of overlapping slots, in rows sorted by id and start."""
    count = len(ids)
    new_id = np.concatenate(([True], ids[1:] != ids[:-1])) if count else np.empty(0, np.bool_)
    # The running maximum of the ends within an id. It uses ranks instead of times, so that one number also has the id.
    by_end = np.argsort(ends, kind="stable")
    rank = np.empty(count, dtype=np.int64)
    rank[by_end] = np.arange(count)
    reached = np.maximum.accumulate(np.cumsum(new_id) * count + rank) % max(count, 1)
    reached_end = ends[by_end[reached]]
    is_first = new_id.copy()
    is_first[1:] |= starts[1:] >= reached_end[:-1]
    return np.flatnonzero(is_first)


def _choose_all(which: Mask, chosen: Columns, others: Columns) -> Columns:
    if which.all():
        return chosen
    condition = pa.array(which)
    return [pc.if_else(condition, one, other) for one, other in zip(chosen, others, strict=True)]


def column_of(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
    )


def ints_of(table: pa.Table, name: str) -> Ints:
    return np.asarray(column_of(table, name)).astype(np.int64, copy=False)
