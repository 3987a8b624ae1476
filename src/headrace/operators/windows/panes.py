"""The step of windows with several panes: early, on time and late, each with a retraction of the previous pane.

A slot is one window of one key. Its state has the folds and the last emitted pane. A step merges new rows into the
state, decides which slots to emit, and returns the new state. It processes all slots of a bucket together, as columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headrace.operators.folds import Columns, CompletenessFold, Fold, OriginalsFold
from headrace.operators.late_rows import LATE_ROWS, UTC_TIME
from headrace.operators.state.ids import Ids, Ints, Mask, contains, distinct, is_first, segment_starts
from headrace.operators.state.run import COLUMN, LABEL, NEVER, ids_column
from headrace.operators.state.step import Step, StepResult, StepTime
from headrace.operators.state.table import (
    StateTable,
    column_of,
    filled,
    ids_in,
    ints_of,
    state_schema,
    with_column,
)
from headrace.operators.triggers import EVERY_BATCH, Firing, Pane, Panes

ORIGINALS = "originals"
"""The input column with the rows that were merged into a slot, for the side output of late rows; not in the state."""

_PANES = np.array(tuple(Pane), dtype=object)
_NOT_EMITTED = {
    "due_us": NEVER,
    "wake_us": NEVER,
    "is_done": False,
    "revision": 0,
    "rows_out": 0,
    "first_us": NEVER,
    "fired": 0,
}
"""The state of a slot without an emitted pane."""


class PaneRules(Struct, frozen=True, kw_only=True):
    """When to emit panes, and how long to accept late rows."""

    within_us: int = 0
    """The allowed lateness: how long after its end a window accepts late rows; 0 for not at all."""
    early: Firing | None = None
    on_time: bool = True
    late: Firing | None = EVERY_BATCH
    panes: Panes = "retracting"
    keeps_late: bool = False
    """Whether dropped late rows are returned, not only counted."""

    @property
    def emits_once(self) -> bool:
        return self.within_us == 0 and self.early is None

    @property
    def has_delay(self) -> bool:
        return any(each is not None and each.has_delay for each in (self.early, self.late))

    def due_us(self, is_over: Mask, rows: Ints, first_us: Ints, fired: Ints) -> Ints:
        """The processing time at which each slot emits a pane with these new rows; NEVER if it needs more of them."""
        never = np.full(len(rows), NEVER, dtype=np.int64)
        early, late = (
            never if each is None else each.met_us(rows, first_us, fired) for each in (self.early, self.late)
        )
        return np.where(rows > 0, np.where(is_over, late, early), NEVER)


class PaneShape(Struct, frozen=True, kw_only=True):
    """What all windows need to build their step."""

    keys: Sequence[pa.Field]
    folds: Sequence[tuple[str, Fold]]
    """Each with the name of its result."""
    rules: PaneRules
    is_bounded: bool = False


class PaneStep(Step):
    """The step of slots. With `merges_overlaps`, overlapping slots of a key are merged, as for sessions.

    The input has `id`, the key columns, `start`, `end`, `rows` (how many rows were merged into it), and the folds.
    """

    version = 2
    due_column = "due_us"
    shown_before_us = 0
    """How much earlier the emitted bounds of a window are than the internal ones."""
    ends_inclusive_us = 0
    """1 if a window still includes its end."""

    def __init__(self, shape: PaneShape, *, merges_overlaps: bool = False) -> None:
        keys, folds = shape.keys, shape.folds
        self.rules = rules = shape.rules
        self.is_bounded = shape.is_bounded
        self.wake_column = "wake_us" if rules.has_delay else None
        self.merges_overlaps = merges_overlaps
        self.keys = [f"k{number}" for number in range(len(keys))]
        self.folds = [fold for _, fold in folds]
        self.completeness = [
            (number, fold) for number, fold in enumerate(self.folds) if isinstance(fold, CompletenessFold)
        ]
        self.retracts = rules.panes == "retracting"
        self.emitted_names = ["start_out", "end_out", "pane_out", *(f"out{n}" for n in range(len(folds)))]
        key_fields = [
            pa.field(name, each.type, metadata={COLUMN: each.name.encode()})
            for name, each in zip(self.keys, keys, strict=True)
        ]
        slot_fields = [
            *key_fields,
            *(pa.field(name, pa.int64()) for name in ("start", "end", "rows")),
            *_fold_fields(folds),
        ]
        # The original rows are only in the input, for the side output of late rows.
        originals = [pa.field(ORIGINALS, pa.list_(pa.string()))] if rules.keeps_late else []
        self.lifted_folds = [*self.folds, OriginalsFold()] if rules.keeps_late else self.folds
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

    def _pane_fields(self) -> list[pa.Field]:
        fields = [
            pa.field("due_us", pa.int64()),
            pa.field("wake_us", pa.int64()),
            pa.field("is_done", pa.bool_()),  # its on-time pane was emitted
            pa.field("revision", pa.int32()),  # how many panes were emitted
            pa.field("rows_out", pa.int64()),  # how many rows the last pane had
            *trigger_fields(),
        ]
        return fields + self.emitted_fields() if self.retracts else fields

    def migrate(self, rows: pa.Table, version: int) -> pa.Table:
        """Version 1 had only the end of the delay since the first row, and no sequences of conditions."""
        columns = {name: rows.column(name) for name in rows.column_names} | {
            "first_us": rows.column("wake_us")
        }
        return filled(self.state_schema, columns, rows.num_rows, {"fired": 0})

    def emitted_fields(self) -> list[pa.Field]:
        """The last emitted pane, which the next one retracts."""
        kinds = [pa.int64(), pa.int64(), pa.int8(), *(fold.result_type for fold in self.folds)]
        return list(map(pa.field, self.emitted_names, kinds))

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        ends_us, row_counts = ints_of(rows, "end") + self.ends_inclusive_us, ints_of(rows, "rows")
        is_over = ends_us <= time.late_us
        too_late = ends_us + self.rules.within_us <= time.late_us
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
        ids = distinct(np.concatenate([ids_in(rows), *self._due(table, time)]))
        if len(ids) == 0:
            return self.unchanged(late=late, **counts)
        before = table.take(ids)
        slots = self.slots_of(before, rows, time)
        kept = slots.kept()
        deleted = ids_in(before)
        deleted = distinct(deleted[~contains(distinct(ids_in(kept)), deleted)])
        return StepResult(rows=kept, deleted=deleted, output=slots.output(), late=late, **counts)

    def _with_lateness(self, rows: pa.Table, is_over: Mask) -> pa.Table:
        """The rows, with their lateness in the states of completeness folds."""
        for number, fold in self.completeness:
            names = [f"f{number}_{part}" for part in range(len(fold.state))]
            columns = fold.with_lateness([column_of(rows, name) for name in names], is_over)
            for name, column in zip(names, columns, strict=True):
                rows = with_column(rows, name, column)
        return rows

    def late_of(self, rows: pa.Table, time: StepTime) -> pa.Table:
        """The original rows of these slots, one row each."""
        originals = column_of(rows, ORIGINALS)
        counts = np.asarray(originals.value_lengths())
        bounds = [np.repeat(ints_of(rows, name), counts) - self.shown_before_us for name in ("start", "end")]
        watermark = np.full(int(counts.sum()), time.late_us)
        times = [pa.array(each).cast(UTC_TIME) for each in (*bounds, watermark)]
        flat = originals.flatten()
        return pa.table([*times, flat, pa.nulls(len(flat), pa.string())], schema=LATE_ROWS)

    def slots_of(self, before: pa.Table, rows: pa.Table, time: StepTime) -> StepSlots:
        return Slots(self, before, rows, time)

    def _due(self, table: StateTable, time: StepTime) -> list[Ids]:
        due = [table.due("due_us", time.watermark_us)]
        if self.wake_column:
            due.append(table.due("wake_us", time.now_us))
        return due


class StepSlots(Protocol):
    """The slots of one step."""

    def kept(self) -> pa.Table:
        """The new state of the slots that are not deleted."""

    def output(self) -> pa.Table: ...


class Slots:
    """State and new rows, sorted and merged into one row per slot."""

    def __init__(self, step: PaneStep, before: pa.Table, rows: pa.Table, time: StepTime) -> None:
        self._step = step
        self._rules = step.rules
        self._time = time
        columns = {name: rows.column(name) for name in rows.column_names}
        new = filled(step.state_schema, columns, rows.num_rows, _NOT_EMITTED)
        together = pa.concat_tables([before, new]).combine_chunks()
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
        return order, overlap_starts(ids[order], starts[order], ends[order])

    def _merge(self) -> None:
        starts, sorted_rows = self._starts, self._sorted
        self.start = np.minimum.reduceat(ints_of(sorted_rows, "start"), starts)
        self.end = np.maximum.reduceat(ints_of(sorted_rows, "end"), starts)
        self.rows = np.add.reduceat(ints_of(sorted_rows, "rows"), starts)
        self.rows_out = np.add.reduceat(ints_of(sorted_rows, "rows_out"), starts)
        self.revision = np.maximum.reduceat(ints_of(sorted_rows, "revision"), starts)
        self.first_us = np.minimum.reduceat(ints_of(sorted_rows, "first_us"), starts)
        self.fired = np.maximum.reduceat(ints_of(sorted_rows, "fired"), starts)
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
        self.on_time = self.is_over & ~done & (self.existed | (self.end > self._time.late_us))
        self.first_us = np.where(changed, np.minimum(self.first_us, now_us), NEVER)
        if rules.on_time:
            # The pane at the end of a window separates the early ones from the late ones.
            self.fired = np.where(self.is_done == self.is_over, self.fired, 0)
        self.wake_us = rules.due_us(self.is_over, self.rows - self.rows_out, self.first_us, self.fired)
        emits = (self.wake_us <= now_us) | (changed & self.is_expired)
        if rules.on_time:
            # As in Beam, the first row of a window that is over is emitted immediately.
            emits |= self.on_time | (self.is_over & ~done & changed)
        if rules.panes == "retracting":
            # Several emitted sessions were merged into one: their results must be retracted.
            emits |= self.emitted_count > 1
        if rules.panes == "discarding":
            emits &= changed
        self.emits: Mask = emits
        self.pane = pane_numbers(self.is_over, self.on_time)
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
        keys = [each.filter(emits) for each in self._key_columns()]
        emitted = [each.filter(emits) for each in self._now()]
        return output_rows(self._step, keys, emitted, self.revision[self.emits], "+", self._time)

    def _retractions(self, retracted: Mask) -> pa.Table:
        rows = self._sorted.filter(pa.array(retracted)).combine_chunks()
        keys = [column_of(rows, name) for name in self._step.keys]
        emitted = [column_of(rows, name) for name in self._step.emitted_names]
        return output_rows(self._step, keys, emitted, ints_of(rows, "revision") - 1, "-", self._time)

    def _now(self) -> Columns:
        """The columns of the current pane."""
        return [*map(pa.array, (self.start, self.end, self.pane)), *self.results]

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
            pa.array(np.where(self.emits, NEVER, self.first_us)),
            pa.array(fired_after(self._rules, self.fired, self.emits, self.is_over & ~self.is_done)),
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
        last = [column_of(before, name) for name in self._step.emitted_names]
        return _choose_all(self.emits, self._now(), last)

    def _key_columns(self) -> Columns:
        first = pa.array(self._starts)
        return [column_of(self._sorted, name).take(first) for name in self._step.keys]

    def _lengths(self) -> Ints:
        return np.diff(np.append(self._starts, self._sorted.num_rows))


def output_rows(
    step: PaneStep, keys: Columns, emitted: Columns, revision: Ints, op: str, time: StepTime
) -> pa.Table:
    """The output rows of `emitted`, which has the columns of the state: start, end, pane, results."""
    start, end, pane, *results = emitted
    watermark_us = time.watermark_us if -(2**61) < time.watermark_us < 2**61 else None
    columns = [
        *keys,
        *(pa.array(np.asarray(each) - step.shown_before_us).cast(UTC_TIME) for each in (start, end)),
        *results,
        pa.array(_PANES[np.asarray(pane)], pa.string()),
        pa.array(revision.astype(np.int32)),
        pa.repeat(pa.scalar(op), len(start)),
        pa.repeat(pa.scalar(watermark_us, pa.int64()), len(start)).cast(UTC_TIME),
    ]
    return pa.table(columns, schema=step.output_schema)


def trigger_fields() -> list[pa.Field]:
    return [
        pa.field("first_us", pa.int64()),  # processing time of the first row since the last pane
        pa.field("fired", pa.int32()),  # how many panes were emitted before or after the end of the window
    ]


def fired_after(rules: PaneRules, fired: Ints, emits: Mask, closes: Mask) -> npt.NDArray[np.int32]:
    """The number of panes by the trigger; the pane with which a window `closes` is none of them."""
    return np.where(closes & rules.on_time, 0, fired + emits).astype(np.int32)


def pane_numbers(is_over: Mask, on_time: Mask) -> npt.NDArray[np.int8]:
    return np.where(is_over, np.where(on_time, 1, 2), 0).astype(np.int8)


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


def overlap_starts(ids: Ids, starts: Ints, ends: Ints) -> Ints:
    """The start of each group of overlapping slots, in rows sorted by id and start."""
    count, new_id = len(ids), is_first(ids)
    # The running maximum of the ends within an id. It uses ranks instead of times, so that one number also has the id.
    by_end = np.argsort(ends, kind="stable")
    rank = np.empty(count, dtype=np.int64)
    rank[by_end] = np.arange(count)
    reached = np.maximum.accumulate(np.cumsum(new_id) * count + rank) % max(count, 1)
    reached_end = ends[by_end[reached]]
    new_id[1:] |= starts[1:] >= reached_end[:-1]
    return np.flatnonzero(new_id)


def _choose_all(which: Mask, chosen: Columns, others: Columns) -> Columns:
    if which.all():
        return chosen
    condition = pa.array(which)
    return [pc.if_else(condition, one, other) for one, other in zip(chosen, others, strict=True)]
