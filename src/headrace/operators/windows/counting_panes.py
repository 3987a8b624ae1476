"""The step of count windows: input rows are stored individually until no earlier row can arrive.

The state of a key has two kinds of rows. The first kind are input rows, sorted by time; the rows of a window that is
not full are merged into one as soon as no late row can shift them. The second kind are windows that were emitted or
wait to be emitted, one row each. Windows are numbered from the first stored input row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.folds import Columns, Fold
from headrace.operators.late_rows import UTC_TIME
from headrace.operators.state.ids import Hashes, Ids, Ints, Mask, contains, ids_of, segment_starts
from headrace.operators.state.run import ID, NEVER, ids_column
from headrace.operators.state.step import END_US, StepResult, StepTime
from headrace.operators.state.table import StateTable, ids_in, state_schema
from headrace.operators.triggers import Pane
from headrace.operators.windows.lifting import HASHES, TIME, key_columns, lift_all
from headrace.operators.windows.panes import ORIGINALS, PaneRules, PaneStep, column_of, ints_of

TIE = "tie"
"""The column that orders rows with equal times."""

NO_WINDOW = -1
"""The window number of input rows in the state."""

_OF_INPUT = {
    "due_us": NEVER,
    "wake_us": NEVER,
    "window": NO_WINDOW,
    "changes": 0,
    "is_done": False,
    "revision": 0,
}
_PANES = np.array(tuple(Pane), dtype=object)


class CountLift:
    """Lift each row individually: its window is unknown until the earlier rows have arrived."""

    def __init__(self, folds: Sequence[Fold], schema: pa.Schema) -> None:
        self._folds = folds
        self._schema = schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        times_us = np.asarray(rows.column(TIME))
        first, second = (np.asarray(rows.column(name)).view(np.uint64) for name in HASHES)
        columns = [
            ids_column(ids_of(first, second)),
            *key_columns(rows),
            pa.array(times_us),
            pa.array(times_us),
            pa.array(np.ones(len(times_us), dtype=np.int64)),
            *lift_all(self._folds, rows, times_us),
            column_of(rows, TIE),
        ]
        return pa.table(columns, schema=self._schema), first


class CountingStep:
    """The step of count windows. `start` and `end` of an input row are its time.

    With `emits_rest`, windows that are not full are emitted at the end of the input.
    """

    version = 1
    due_column = "due_us"

    def __init__(
        self,
        *,
        keys: Sequence[pa.Field],
        folds: Sequence[tuple[str, Fold]],
        rules: PaneRules,
        window_rows: int,
        emits_rest: bool = False,
    ) -> None:
        self.rules = rules
        self.window_rows = window_rows
        self.emits_rest = emits_rest
        self.folds = [fold for _, fold in folds]
        self._like = PaneStep(keys=keys, folds=folds, rules=rules)
        self.keys = self._like.keys
        self.output_schema = self._like.output_schema
        self.input_schema = self._like.input_schema.append(pa.field(TIE, pa.int64()))
        self.row_names = [name for name in self.input_schema.names if name != ORIGINALS]
        self.emitted_names = ["start_out", "end_out", "pane_out", *(f"out{n}" for n in range(len(folds)))]
        emitted_types = [pa.int64(), pa.int64(), pa.int8(), *(fold.result_type for fold in self.folds)]
        self.state_schema = state_schema(
            [
                *map(self.input_schema.field, self.row_names[1:]),
                pa.field("due_us", pa.int64()),
                pa.field("wake_us", pa.int64()),
                pa.field("window", pa.int64()),
                pa.field("changes", pa.int64()),  # rows that changed its content since its last pane
                pa.field("is_done", pa.bool_()),  # its on-time pane was emitted
                pa.field("revision", pa.int32()),  # how many panes were emitted
                *map(pa.field, self.emitted_names, emitted_types),
            ]
        )

    @property
    def has_early(self) -> bool:
        return self.rules.early_rows is not None or self.rules.early_us is not None

    @property
    def wake_column(self) -> str | None:
        return "wake_us" if self.rules.early_us or self.rules.late_us else None

    def migrate(self, rows: pa.Table, version: int) -> pa.Table:
        raise AssertionError(f"there never was a version {version}")

    def is_settled(self, ends_us: Ints, time: StepTime) -> Mask:
        """Whether no row at or before these times is accepted any more."""
        settled: Mask = ends_us + (1 + self.rules.within_us) <= time.watermark_us
        return settled

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        ends_us = ints_of(rows, "end")
        too_late = self.is_settled(ends_us, time)
        is_behind = ends_us + 1 <= time.watermark_us
        counts: dict[str, Any] = {
            "rows_in": rows.num_rows,
            "corrected_rows": int((is_behind & ~too_late).sum()),
            "late_rows": int(too_late.sum()),
        }
        if too_late.any():
            if self.rules.keeps_late:
                counts["late"] = self._like.late_of(rows.filter(pa.array(too_late)), time)
            rows = rows.filter(pa.array(~too_late))
        ids = np.unique(np.concatenate([ids_in(rows), *self._due(table, time)]))
        before = table.take(ids)
        if before.num_rows + rows.num_rows == 0:
            state, output = self.state_schema.empty_table(), self.output_schema.empty_table()
            return StepResult(rows=state, deleted=ids[:0], output=output, **counts)
        windows = CountWindows(self, before, rows, time)
        kept = windows.kept()
        deleted = np.unique(ids_in(before))
        deleted = deleted[~contains(np.unique(ids_in(kept)), deleted)]
        return StepResult(rows=kept, deleted=deleted, output=windows.output(), **counts)

    def _due(self, table: StateTable, time: StepTime) -> list[Ids]:
        due = [table.due("due_us", time.watermark_us)]
        if self.wake_column:
            due.append(table.due("wake_us", time.now_us))
        return due


class CountWindows:
    """The windows of the keys of one step. Arrays with one value per input row are named `row_…` in the plural
    (`row_windows`), arrays with one value per window without prefix (`rows`, `start`)."""

    def __init__(self, step: CountingStep, before: pa.Table, rows: pa.Table, time: StepTime) -> None:
        self._step = step
        self._time = time
        is_emitted = ints_of(before, "window") != NO_WINDOW
        emitted = before.filter(pa.array(is_emitted)).combine_chunks()
        kept = before.filter(pa.array(~is_emitted)).select(step.row_names)
        together = pa.concat_tables([kept, rows.select(step.row_names)]).combine_chunks()
        order = np.lexsort((ints_of(together, TIE), ints_of(together, "end"), ids_in(together)))
        self._rows = together.take(pa.array(order)).combine_chunks()
        self._arrived = order >= kept.num_rows
        self._place()
        self._find_emitted(emitted)
        self._decide()

    def _place(self) -> None:
        """Assign a window to each row, by the number of rows of its key before it."""
        ids, counts = ids_in(self._rows), ints_of(self._rows, "rows")
        first = segment_starts(ids)
        self._row_keys = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(ids))))
        self._key_ids = ids[first]
        before = _before_in_group(counts, first, self._row_keys)
        self._row_windows = before // self._step.window_rows
        is_first = np.ones(len(ids), dtype=np.bool_)
        is_first[1:] = (np.diff(self._row_keys) != 0) | (np.diff(self._row_windows) != 0)
        self._starts = np.flatnonzero(is_first)
        self._lasts = np.append(self._starts[1:], len(ids)) - 1
        self.key = self._row_keys[self._starts]
        self.window = self._row_windows[self._starts]
        self.start = ints_of(self._rows, "start")[self._starts]
        self.end = ints_of(self._rows, "end")[self._lasts]
        self.rows = np.add.reduceat(counts, self._starts)
        arrived = self._arrived.astype(np.int64)
        arrived_before = _before_in_group(arrived, first, self._row_keys)
        self.arrived = (arrived_before + arrived)[self._lasts]  # in this window or before it

    def _find_emitted(self, emitted: pa.Table) -> None:
        """The position of each window's row in `emitted`, or -1."""
        self._emitted = emitted
        scale = int(max(self.window.max(initial=0), ints_of(emitted, "window").max(initial=0))) + 1
        emitted_keys = np.searchsorted(self._key_ids, ids_in(emitted))
        places = emitted_keys * scale + ints_of(emitted, "window")
        order = np.argsort(places)
        wanted = self.key * scale + self.window
        if len(order) == 0:
            self._emitted_at = np.full(len(wanted), -1)
            return
        found = np.minimum(np.searchsorted(places[order], wanted), len(order) - 1)
        self._emitted_at = np.where(places[order][found] == wanted, order[found], -1)

    def _of_emitted(self, name: str, otherwise: int) -> Ints:
        if self._emitted.num_rows == 0:
            return np.full(len(self._emitted_at), otherwise, dtype=np.int64)
        return np.where(self._emitted_at < 0, otherwise, ints_of(self._emitted, name)[self._emitted_at])

    def _decide(self) -> None:
        """Decide which windows are emitted, and with which pane."""
        step, rules, now_us = self._step, self._step.rules, self._time.now_us
        self.is_full = self.rows == step.window_rows
        self.is_over = self.is_full & (self.end + 1 <= self._time.watermark_us)
        self.is_expired = self.is_full & step.is_settled(self.end, self._time)
        self.on_time = self.is_over & (self._of_emitted("is_done", 0) == 0)
        self.revision = self._of_emitted("revision", 0)
        self.changes = np.minimum(self._of_emitted("changes", 0) + self.arrived, self.rows)
        changed = self.changes > 0
        interval_us = np.where(self.is_over, rules.late_us, rules.early_us or NEVER)
        with np.errstate(over="ignore"):
            woken_us = np.where(interval_us == NEVER, NEVER, now_us + interval_us)
        self.wake_us = np.where(changed, np.minimum(woken_us, self._of_emitted("wake_us", NEVER)), NEVER)
        emits = self.on_time | (changed & ((self.wake_us <= now_us) | self.is_expired))
        if rules.early_rows is not None:
            emits |= ~self.is_over & (self.changes >= rules.early_rows)
        if step.emits_rest and self._time.watermark_us >= END_US:
            emits |= ~self.is_full & (changed | (self.revision == 0))
        self.emits: Mask = emits
        self.pane = np.where(self.is_over, np.where(self.on_time, 1, 2), 0).astype(np.int8)
        self.results = [
            fold.result(fold.merge(columns, self._starts))
            for fold, columns in zip(step.folds, self._fold_columns(self._rows), strict=True)
        ]

    def _fold_columns(self, rows: pa.Table) -> list[Columns]:
        return [
            [column_of(rows, f"f{number}_{part}") for part in range(len(fold.state))]
            for number, fold in enumerate(self._step.folds)
        ]

    def output(self) -> pa.Table:
        emits = pa.array(self.emits)
        additions = self._output_rows(
            self._keys_of(self._rows, self._starts[self.emits]),
            [
                pa.array(self.start).filter(emits),
                pa.array(self.end).filter(emits),
                pa.array(self.pane).filter(emits),
                *(each.filter(emits) for each in self.results),
            ],
            self.revision[self.emits],
            "+",
        )
        retracted = self.emits & (self.revision > 0)
        if not retracted.any():
            return additions
        at = self._emitted_at[retracted]
        retractions = self._output_rows(
            self._keys_of(self._emitted, at),
            [column_of(self._emitted, name).take(pa.array(at)) for name in self._step.emitted_names],
            self.revision[retracted] - 1,
            "-",
        )
        return pa.concat_tables([retractions, additions])

    def _output_rows(self, keys: Columns, emitted: Columns, revision: Ints, op: str) -> pa.Table:
        """The output rows of `emitted`, which has the columns of the state: start, end, pane, results."""
        start, end, pane, *results = emitted
        count, watermark_us = len(start), self._time.watermark_us
        has_watermark = -END_US < watermark_us < END_US
        columns = [
            *keys,
            start.cast(UTC_TIME),
            end.cast(UTC_TIME),
            *results,
            pa.array(_PANES[np.asarray(pane)], pa.string()),
            pa.array(revision.astype(np.int32)),
            pa.repeat(pa.scalar(op), count),
            pa.repeat(pa.scalar(watermark_us if has_watermark else None, pa.int64()), count).cast(UTC_TIME),
        ]
        return pa.table(columns, schema=self._step.output_schema)

    def _keys_of(self, table: pa.Table, positions: Ints) -> Columns:
        picked = pa.array(positions)
        return [column_of(table, name).take(picked) for name in self._step.keys]

    def kept(self) -> pa.Table:
        """The new state. It has no full windows that can't change any more, and none of their rows."""
        return pa.concat_tables([self._kept_rows(), self._kept_windows()])

    def _kept_rows(self) -> pa.Table:
        stays = np.flatnonzero(~np.repeat(self.is_expired, self._lasts - self._starts + 1))
        rows = self._rows.take(pa.array(stays)).combine_chunks()
        keys, ends = self._row_keys[stays], ints_of(rows, "end")
        # Rows that no late row can shift are left only in windows that are not full. They are merged into one.
        settled = self._step.is_settled(ends, self._time)
        is_first = np.ones(len(stays), dtype=np.bool_)
        is_first[1:] = ~(settled[1:] & settled[:-1] & (keys[1:] == keys[:-1]))
        first = np.flatnonzero(is_first)
        last = np.append(first[1:], len(stays))[: len(first)] - 1
        due = np.full(len(self._row_keys), NEVER)
        due[self._lasts] = self._due()
        counts = ints_of(rows, "rows")
        merged = {
            ID: ids_column(ids_in(rows)[first]),
            **{
                name: column_of(rows, name).take(pa.array(first)) for name in [*self._step.keys, "start", TIE]
            },
            "end": pa.array(ends[last]),
            "rows": pa.array(np.add.reduceat(counts, first) if len(first) else counts),
            "due_us": pa.array(due[stays][last]),
        }
        for number, fold in enumerate(self._step.folds):
            for part, column in enumerate(fold.merge(self._fold_columns(rows)[number], first)):
                merged[f"f{number}_{part}"] = column
        return self._as_state(merged, len(first))

    def _due(self) -> Ints:
        """The watermark at which a window closes or expires, even if no row arrives."""
        full_us = np.where(self.is_over, self.end + 1 + self._step.rules.within_us, self.end + 1)
        return np.where(self.is_full, full_us, END_US if self._step.emits_rest else NEVER)

    def _kept_windows(self) -> pa.Table:
        revision = self.revision + self.emits
        changes = np.where(self.emits, 0, self.changes)
        is_known = (revision > 0) | (self._step.has_early & (changes > 0))
        stays = np.flatnonzero(~self.is_expired & is_known)
        expired = np.bincount(self.key, weights=self.is_expired).astype(np.int64)
        now = [pa.array(self.start), pa.array(self.end), pa.array(self.pane), *self.results]
        before = self._emitted.take(pa.array(self._emitted_at, mask=self._emitted_at < 0)).combine_chunks()
        picked, emits = pa.array(stays), pa.array(self.emits[stays])
        emitted = {
            name: pc.if_else(emits, one.take(picked), column_of(before, name).take(picked))
            for name, one in zip(self._step.emitted_names, now, strict=True)
        }
        columns = {
            ID: ids_column(self._key_ids[self.key[stays]]),
            **dict(zip(self._step.keys, self._keys_of(self._rows, self._starts[stays]), strict=True)),
            "start": pa.array(self.start[stays]),
            "end": pa.array(self.end[stays]),
            "rows": pa.array(self.rows[stays]),
            "wake_us": pa.array(np.where(self.emits, NEVER, self.wake_us)[stays]),
            "window": pa.array((self.window - expired[self.key])[stays]),
            "changes": pa.array(changes[stays]),
            "is_done": pa.array(self.is_over[stays]),
            "revision": pa.array(revision[stays].astype(np.int32)),
            **emitted,
        }
        return self._as_state(columns, len(stays))

    def _as_state(self, columns: dict[str, pa.Array], count: int) -> pa.Table:
        """A table of the state. Missing columns get the values of input rows."""
        arrays = []
        for field in self._step.state_schema:
            if field.name in columns:
                arrays.append(columns[field.name])
            elif field.name in _OF_INPUT:
                arrays.append(pa.repeat(pa.scalar(_OF_INPUT[field.name], field.type), count))
            else:
                arrays.append(pa.nulls(count, field.type))
        return pa.table(arrays, schema=self._step.state_schema)


def _before_in_group(counts: Ints, first: Ints, groups: Ints) -> Ints:
    """The sum of the earlier counts in the group of each count. `first` has the start of each group."""
    before = np.cumsum(counts) - counts
    return before - before[first][groups]
