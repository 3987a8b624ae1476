"""From rows to slots: the assignment of rows to windows, and the fold states of each row.

This runs in the tasks that read the rows, before the shuffle to buckets: rows of the same window are merged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.operators.folds import Columns, Fold
from headrace.operators.state.ids import Hashes, Ints, ids_of, mixed, segment_starts
from headrace.operators.state.run import ids_column
from headrace.operators.windows.slots import ClockSlots

HASHES = ("h1", "h2")
TIME = "time"


class ClockLift:
    """The lift of windows with fixed boundaries.

    Rows have `h1`, `h2`, `time`, `k0`…, and `a0`… for folds that need values.
    """

    def __init__(self, slots: ClockSlots, folds: Sequence[Fold], schema: pa.Schema) -> None:
        self._slots = slots
        self._folds = folds
        self._schema = schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        """Slots in the columns of the step's input, and the hash that determines the bucket of each slot."""
        times_us = np.asarray(rows.column(TIME))
        first, second = _hashes(rows)
        positions, starts_us, ends_us = self._slots.assign(times_us)
        ids = ids_of(mixed(first[positions], starts_us), mixed(second[positions], starts_us))
        order = np.argsort(ids)
        ids, positions = ids[order], positions[order]
        starts_us, ends_us = starts_us[order], ends_us[order]
        groups = segment_starts(ids)
        heads = positions[groups]
        counts = np.diff(np.append(groups, len(ids)))
        sorted_rows = rows.take(pa.array(positions)).combine_chunks()
        folded = merge_lifted(self._folds, sorted_rows, times_us[positions], groups)
        columns = [
            ids_column(ids[groups]),
            *(each.take(pa.array(heads)) for each in key_columns(rows)),
            pa.array(starts_us[groups]),
            pa.array(ends_us[groups]),
            pa.array(counts),
            *folded,
        ]
        return pa.table(columns, schema=self._schema), first[heads]


class GapLift:
    """Lift rows to sessions of one row, which end after the gap. The step merges them, because it knows which rows are
    late."""

    def __init__(self, gap_us: int, folds: Sequence[Fold], schema: pa.Schema) -> None:
        self._gap_us = gap_us
        self._folds = folds
        self._schema = schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        times_us = np.asarray(rows.column(TIME))
        first, second = _hashes(rows)
        columns = [
            ids_column(ids_of(first, second)),
            *key_columns(rows),
            pa.array(times_us),
            pa.array(times_us + self._gap_us),
            pa.array(np.ones(len(times_us), dtype=np.int64)),
            *lift_all(self._folds, rows, times_us),
        ]
        return pa.table(columns, schema=self._schema), first


class InstantLift:
    """The lift of sliding windows: rows with the same key and time are merged."""

    def __init__(self, length_us: int, folds: Sequence[Fold], schema: pa.Schema) -> None:
        self._length_us = length_us
        self._folds = folds
        self._schema = schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        times_us = np.asarray(rows.column(TIME))
        first, second = _hashes(rows)
        ids = ids_of(first, second)
        order = np.lexsort((times_us, ids))
        ids, times_us = ids[order], times_us[order]
        is_first = np.ones(len(ids), dtype=np.bool_)
        is_first[1:] = (ids[1:] != ids[:-1]) | (times_us[1:] != times_us[:-1])
        groups = np.flatnonzero(is_first)
        heads = order[groups]
        sorted_rows = rows.take(pa.array(order)).combine_chunks()
        ends_us = times_us[groups] + 1
        columns = [
            ids_column(ids[groups]),
            *(each.take(pa.array(heads)) for each in key_columns(rows)),
            pa.array(ends_us - self._length_us),
            pa.array(ends_us),
            pa.array(np.diff(np.append(groups, len(ids)))),
            *merge_lifted(self._folds, sorted_rows, times_us, groups),
        ]
        return pa.table(columns, schema=self._schema), first[heads]


def key_columns(rows: pa.Table) -> Columns:
    names = [name for name in rows.column_names if name[0] == "k" and name[1:].isdigit()]
    return [_array(rows, name) for name in sorted(names, key=lambda name: int(name[1:]))]


def lift_all(folds: Sequence[Fold], rows: pa.Table, times_us: Ints) -> Columns:
    lifted: Columns = []
    for number, fold in enumerate(folds):
        lifted += fold.lift(_input(rows, number), times_us)
    return lifted


def merge_lifted(folds: Sequence[Fold], rows: pa.Table, times_us: Ints, groups: Ints) -> Columns:
    merged: Columns = []
    for number, fold in enumerate(folds):
        merged += fold.merge(fold.lift(_input(rows, number), times_us), groups)
    return merged


def _input(rows: pa.Table, number: int) -> pa.Array | None:
    name = f"a{number}"
    return _array(rows, name) if name in rows.column_names else None


def _hashes(rows: pa.Table) -> tuple[Hashes, Hashes]:
    first, second = (np.asarray(rows.column(name)).view(np.uint64) for name in HASHES)
    return first, second


def _array(rows: pa.Table, name: str) -> pa.Array:
    column = rows.column(name)
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)
