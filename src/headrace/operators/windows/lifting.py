"""From rows to slots: the assignment of rows to windows, and the fold states of each row.

This runs in the tasks that read the rows, before the shuffle to buckets: rows of the same window are merged.
"""

from __future__ import annotations

import abc
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headrace.operators.folds import Columns
from headrace.operators.state.ids import Hashes, Ids, Ints, distinct, ids_of, mixed, segment_starts
from headrace.operators.state.run import ids_column
from headrace.operators.state.table import column_of, hashes_of, ids_in, ints_of, with_column
from headrace.operators.windows.panes import PaneStep, overlap_starts

TIME = "time"

GAP = "gap"
"""The column with the gap of a row, in microseconds."""

TIE = "tie"
"""The column that orders rows with equal times."""


class ClockSlots(Struct, frozen=True, kw_only=True):
    """Windows of `length_us` that start every `every_us`, from `offset_us` after the epoch."""

    length_us: int
    every_us: int
    offset_us: int = 0

    def assign(self, times_us: Ints) -> tuple[Ints, Ints, Ints]:
        """The positions of rows with the start and end of their windows. A row may be in several windows or in none."""
        newest = times_us - (times_us - self.offset_us) % self.every_us
        positions, starts = [], []
        for back in range(-(-self.length_us // self.every_us)):
            start = newest - back * self.every_us
            inside = np.flatnonzero(start + self.length_us > times_us)
            positions.append(inside)
            starts.append(start[inside])
        start = np.concatenate(starts)
        return np.concatenate(positions), start, start + self.length_us

    def identities(self, starts_us: Ints, ends_us: Ints) -> Ints:
        """Numbers that distinguish these windows."""
        return starts_us


class WindowLift(abc.ABC):
    """The lift of windows: slots in the columns of the step's input, and the hash that determines the bucket of each.

    Rows have `h1`, `h2`, `time`, `k0`…, and `a0`… for folds that need values.
    """

    def __init__(self, step: PaneStep) -> None:
        self._folds = step.lifted_folds
        self._schema = step.input_schema

    @abc.abstractmethod
    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]: ...

    def _merged(
        self, rows: pa.Table, positions: Ints, ids: Ids, starts_us: Ints, ends_us: Ints
    ) -> tuple[pa.Table, Hashes]:
        """One slot for each id and end, from the rows at these positions, which are sorted by both."""
        groups = segment_starts(ids, ends_us)
        heads = positions[groups]
        sorted_rows = rows.take(pa.array(positions)).combine_chunks()
        lifted = self._lifted(sorted_rows)
        columns = [
            ids_column(ids[groups]),
            *(each.take(pa.array(heads)) for each in key_columns(rows)),
            pa.array(starts_us[groups]),
            pa.array(ends_us[groups]),
            pa.array(np.diff(np.append(groups, len(ids)))),
        ]
        for fold, states in zip(self._folds, lifted, strict=True):
            columns += fold.merge(states, groups)
        return pa.table(columns, schema=self._schema), hashes_of(rows)[0][heads]

    def _lifted(self, rows: pa.Table) -> list[Columns]:
        """The states of each fold."""
        times_us = ints_of(rows, TIME)
        names = [f"a{number}" for number in range(len(self._folds))]
        inputs = [column_of(rows, name) if name in rows.column_names else None for name in names]
        return [fold.lift(values, times_us) for fold, values in zip(self._folds, inputs, strict=True)]


class ClockLift(WindowLift):
    """The lift of windows with fixed boundaries."""

    def __init__(self, step: PaneStep, slots: ClockSlots) -> None:
        super().__init__(step)
        self._slots = slots

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        first, second = hashes_of(rows)
        positions, starts_us, ends_us = self._slots.assign(ints_of(rows, TIME))
        windows = self._slots.identities(starts_us, ends_us)
        ids = ids_of(mixed(first[positions], windows), mixed(second[positions], windows))
        order = np.argsort(ids)
        return self._merged(rows, positions[order], ids[order], starts_us[order], ends_us[order])


class InstantLift(WindowLift):
    """The lift of sliding windows: rows with the same key and time are merged."""

    def __init__(self, step: PaneStep, length_us: int) -> None:
        super().__init__(step)
        self._length_us = length_us

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        ids, ends_us = ids_of(*hashes_of(rows)), ints_of(rows, TIME) + 1
        order = np.lexsort((ends_us, ids))
        ends_us = ends_us[order]
        return self._merged(rows, order, ids[order], ends_us - self._length_us, ends_us)


class RowLift(WindowLift):
    """Lift each row individually, if only the step can assign its window: the step knows which rows are late.

    A slot ends `length_us` after its row; with None, after the gap of the row.
    """

    def __init__(self, step: PaneStep, length_us: int | None) -> None:
        super().__init__(step)
        self._length_us = length_us

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        first, second = hashes_of(rows)
        times_us = ints_of(rows, TIME)
        lengths_us = ints_of(rows, GAP) if self._length_us is None else self._length_us
        columns = [
            ids_column(ids_of(first, second)),
            *key_columns(rows),
            pa.array(times_us),
            pa.array(times_us + lengths_us),
            pa.array(np.ones(len(times_us), dtype=np.int64)),
            *(column for states in self._lifted(rows) for column in states),
            *(column_of(rows, name) for name in self._schema.names if name == TIE),
        ]
        return pa.table(columns, schema=self._schema), first


class SessionLift(RowLift):
    """The lift of sessions: rows of a key are merged if they are certainly in one session.

    The step drops late rows, and only rows that it does not drop make a session. `late_until_us` returns a time that is
    not before the watermark of the step: slots that end after it are not late. None leaves all rows apart.
    """

    def __init__(
        self, step: PaneStep, length_us: int | None, late_until_us: Callable[[], int | None]
    ) -> None:
        super().__init__(step, length_us)
        self._step_folds = step.folds
        self._late_until_us = late_until_us

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        slots, hashes = super().__call__(rows)
        until_us = self._late_until_us()
        if until_us is None:
            return slots, hashes
        ids, starts_us, ends_us = ids_in(slots), ints_of(slots, "start"), ints_of(slots, "end")
        may_be_late = ends_us <= until_us
        order = np.lexsort((starts_us, ids, may_be_late))
        groups = overlap_starts(ids[order], starts_us[order], ends_us[order])
        groups = distinct(np.append(groups, np.flatnonzero(may_be_late[order])))
        heads = order[groups]
        merged, ordered = slots.take(pa.array(heads)), slots.take(pa.array(order)).combine_chunks()
        merged = with_column(merged, "end", pa.array(np.maximum.reduceat(ends_us[order], groups)))
        merged = with_column(merged, "rows", pa.array(np.diff(np.append(groups, len(order)))))
        # Without the original rows, which the step needs only of late ones.
        for number, fold in enumerate(self._step_folds):
            names = [f"f{number}_{part}" for part in range(len(fold.state))]
            states = fold.merge([column_of(ordered, name) for name in names], groups)
            for name, column in zip(names, states, strict=True):
                merged = with_column(merged, name, column)
        return merged, hashes[heads]


def key_columns(rows: pa.Table) -> Columns:
    names = [name for name in rows.column_names if name[0] == "k" and name[1:].isdigit()]
    return [column_of(rows, name) for name in sorted(names, key=lambda name: int(name[1:]))]
