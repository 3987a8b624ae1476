"""The step of count windows: input rows are stored individually until no earlier row can arrive.

The state of a key has two kinds of rows. The first kind are input rows, sorted by time; the rows of a window that is
not full are merged into one as soon as no late row can shift them. The second kind are windows that were emitted or
wait to be emitted, one row each. Windows are numbered from the first stored input row.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.folds import Columns
from headrace.operators.state.ids import Ints, Mask, segment_starts
from headrace.operators.state.run import ID, NEVER, ids_column
from headrace.operators.state.step import END_US, StepTime
from headrace.operators.state.table import column_of, filled, ids_in, ints_of, state_schema
from headrace.operators.windows.lifting import TIE
from headrace.operators.windows.panes import (
    ORIGINALS,
    PaneShape,
    PaneStep,
    fired_after,
    output_rows,
    pane_numbers,
    trigger_fields,
)

NO_WINDOW = -1
"""The window number of input rows in the state."""

_OF_INPUT = {
    "due_us": NEVER,
    "wake_us": NEVER,
    "window": NO_WINDOW,
    "changes": 0,
    "is_done": False,
    "revision": 0,
    "first_us": NEVER,
    "fired": 0,
}
"""The state of input rows."""


class CountingStep(PaneStep):
    """The step of count windows. `start` and `end` of an input row are its time.

    With `emits_rest`, windows that are not full are emitted at the end of the input.
    """

    ends_inclusive_us = 1

    def __init__(self, shape: PaneShape, *, window_rows: int, emits_rest: bool = False) -> None:
        super().__init__(shape)
        self.window_rows = window_rows
        self.emits_rest = emits_rest
        self.input_schema = self.input_schema.append(pa.field(TIE, pa.int64()))
        self.row_names = [name for name in self.input_schema.names if name != ORIGINALS]
        self.state_schema = state_schema(
            [
                *map(self.input_schema.field, self.row_names[1:]),
                pa.field("due_us", pa.int64()),
                pa.field("wake_us", pa.int64()),
                pa.field("window", pa.int64()),
                pa.field("changes", pa.int64()),  # rows that changed its content since its last pane
                pa.field("is_done", pa.bool_()),  # its on-time pane was emitted
                pa.field("revision", pa.int32()),  # how many panes were emitted
                *trigger_fields(),
                *self.emitted_fields(),
            ]
        )

    @property
    def has_early(self) -> bool:
        return self.rules.early is not None

    def is_final(self, ends_us: Ints, time: StepTime) -> Mask:
        """Whether no row at or before these times is accepted any more."""
        final: Mask = ends_us + (1 + self.rules.within_us) <= time.watermark_us
        return final

    def slots_of(self, before: pa.Table, rows: pa.Table, time: StepTime) -> CountWindows:
        return CountWindows(self, before, rows, time)


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
        self._starts = segment_starts(self._row_keys, self._row_windows)
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
        self.is_expired = self.is_full & step.is_final(self.end, self._time)
        self.on_time = self.is_over & (self._of_emitted("is_done", 0) == 0)
        self.revision = self._of_emitted("revision", 0)
        self.changes = np.minimum(self._of_emitted("changes", 0) + self.arrived, self.rows)
        changed = self.changes > 0
        self.first_us = np.where(changed, np.minimum(self._of_emitted("first_us", NEVER), now_us), NEVER)
        was_over = self._of_emitted("is_done", 0) == 1
        self.fired = np.where(was_over == self.is_over, self._of_emitted("fired", 0), 0)
        self.wake_us = rules.due_us(self.is_over, self.changes, self.first_us, self.fired)
        emits = self.on_time | (self.wake_us <= now_us) | (changed & self.is_expired)
        if step.emits_rest and self._time.watermark_us >= END_US:
            emits |= ~self.is_full & (changed | (self.revision == 0))
        self.emits: Mask = emits
        self.pane = pane_numbers(self.is_over, self.on_time)
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
        keys = self._keys_of(self._rows, self._starts[self.emits])
        emitted = [each.filter(emits) for each in self._now()]
        additions = output_rows(self._step, keys, emitted, self.revision[self.emits], "+", self._time)
        retracted = self.emits & (self.revision > 0)
        if not retracted.any():
            return additions
        at = self._emitted_at[retracted]
        keys = self._keys_of(self._emitted, at)
        last = [column_of(self._emitted, name).take(pa.array(at)) for name in self._step.emitted_names]
        retractions = output_rows(self._step, keys, last, self.revision[retracted] - 1, "-", self._time)
        return pa.concat_tables([retractions, additions])

    def _now(self) -> Columns:
        """The columns of the current pane."""
        return [*map(pa.array, (self.start, self.end, self.pane)), *self.results]

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
        final = self._step.is_final(ends, self._time)
        is_first = np.ones(len(stays), dtype=np.bool_)
        is_first[1:] = ~(final[1:] & final[:-1] & (keys[1:] == keys[:-1]))
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
        return filled(self._step.state_schema, merged, len(first), _OF_INPUT)

    def _due(self) -> Ints:
        """The watermark at which a window closes or expires, even if no row arrives."""
        full_us = np.where(self.is_over, self.end + 1 + self._step.rules.within_us, self.end + 1)
        return np.where(self.is_full, full_us, END_US if self._step.emits_rest else NEVER)

    def _kept_windows(self) -> pa.Table:
        step, revision = self._step, self.revision + self.emits
        changes = np.where(self.emits, 0, self.changes)
        is_known = (revision > 0) | (self._step.has_early & (changes > 0))
        stays = np.flatnonzero(~self.is_expired & is_known)
        expired = np.bincount(self.key, weights=self.is_expired).astype(np.int64)
        before = self._emitted.take(pa.array(self._emitted_at, mask=self._emitted_at < 0)).combine_chunks()
        picked, emits = pa.array(stays), pa.array(self.emits[stays])
        emitted = {
            name: pc.if_else(emits, one.take(picked), column_of(before, name).take(picked))
            for name, one in zip(self._step.emitted_names, self._now(), strict=True)
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
            "first_us": pa.array(np.where(self.emits, NEVER, self.first_us)[stays]),
            "fired": pa.array(fired_after(step.rules, self.fired, self.emits, self.on_time)[stays]),
            **emitted,
        }
        return filled(self._step.state_schema, columns, len(stays), _OF_INPUT)


def _before_in_group(counts: Ints, first: Ints, groups: Ints) -> Ints:
    """The sum of the earlier counts in the group of each count. `first` has the start of each group."""
    before = np.cumsum(counts) - counts
    return before - before[first][groups]
