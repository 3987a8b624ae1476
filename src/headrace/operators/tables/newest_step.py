"""The step of the newest rows of each key.

The state has all rows of a key or, with `keep`, only the newest ones. The newest row beyond that limit stays in the
state as a mark: changes of rows that are not newer than the mark are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.state.ids import Ints, Mask, contains
from headrace.operators.state.step import StepResult, StepTime
from headrace.operators.state.table import StateTable, ids_in
from headrace.operators.tables.weighted import (
    ROW_HASH,
    Tally,
    changelog_schema,
    column_of,
    emitted,
    ints_of,
    numbered,
    take_keys,
    weighted_schema,
    with_weights,
)

MARK = "is_mark"


class NewestStep:
    """The input has an id of key and row, the weight, `is_mark` (false), and the columns of the row."""

    version = 1
    due_column = None
    wake_column = None

    def __init__(
        self,
        *,
        columns: Sequence[pa.Field],
        by: Sequence[str],
        order: Sequence[str],
        count: int,
        keep: int | None,
    ) -> None:
        own = numbered("c", columns, key=by)
        self._columns = [each.name for each in own]
        positions = {each.name: number for number, each in enumerate(columns)}
        self._order = [f"c{positions[name]}" for name in order]
        self._count = count
        self._keep = keep
        self.state_schema = self.input_schema = weighted_schema([pa.field(MARK, pa.bool_()), *own])
        self.output_schema = changelog_schema(columns)

    def migrate(self, rows: pa.Table, version: int) -> pa.Table:
        raise AssertionError(f"there never was a version {version}")

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        ids = ids_in(rows)
        if len(ids) == 0:
            return StepResult(
                rows=self.state_schema.empty_table(), deleted=ids, output=self.output_schema.empty_table()
            )
        tally = Tally(take_keys(table, np.unique(ids.real)), rows)
        order = self._newest_first(tally)
        group = tally.group[order]
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        was_mark = np.asarray(column_of(tally.rows, MARK))[order]
        weight_before, weight_after = tally.weight_before[order], tally.weight_after[order]
        # The state has no rows that are older than the mark.
        is_below = _running_sum(was_mark.astype(np.int64), starts) > 0
        weight_after[is_below] = 0
        before, after = np.maximum(weight_before, 0), np.maximum(weight_after, 0)
        changes = self._shown(after, starts) - self._shown(before, starts)
        is_emitted = np.flatnonzero(changes)
        positions = pa.array(order[is_emitted])
        output = emitted(
            self.output_schema,
            [column_of(tally.rows, name).take(positions) for name in self._columns],
            changes[is_emitted],
        )
        is_mark = was_mark
        if self._keep is not None:
            weight_after, is_mark = self._within_bound(after, weight_after, was_mark, starts)
        is_touched = (weight_before != weight_after) | (was_mark != is_mark)
        return self._result(tally, order, weight_after, is_mark, is_touched, output)

    def _newest_first(self, tally: Tally) -> Ints:
        """Positions sorted by key, and within a key by the order, the greatest first. Ties have a stable order."""
        keys = {"group": pa.array(tally.group)}
        keys.update({name: column_of(tally.rows, name) for name in self._order})
        keys["imaginary"] = pa.array(np.ascontiguousarray(tally.ids.imag))
        keys["row"] = pa.array(ints_of(tally.rows, ROW_HASH))
        sort_keys = [(name, "ascending" if name == "group" else "descending", "at_end") for name in keys]
        order: Ints = np.asarray(pc.sort_indices(pa.table(keys), sort_keys=sort_keys)).astype(np.int64)
        return order

    def _shown(self, weights: Ints, starts: Ints) -> Ints:
        """How often each row is among the newest `count` rows."""
        newer = _running_sum(weights, starts) - weights
        shown: Ints = np.clip(self._count - newer, 0, weights)
        return shown

    def _within_bound(
        self, after: Ints, weight_after: Ints, was_mark: Mask, starts: Ints
    ) -> tuple[Ints, Mask]:
        """The weights of the stored rows, and the marks: the newest row that is dropped, or else the old mark."""
        assert self._keep is not None
        newer = _running_sum(after, starts) - after
        is_dropped = (newer >= self._keep) & (after > 0)
        candidate = is_dropped | was_mark
        is_mark = candidate & (_running_sum(candidate.astype(np.int64), starts) == 1)
        is_below = _running_sum(is_mark.astype(np.int64), starts) > 0
        return np.where(is_below, 0, weight_after), is_mark

    def _result(
        self, tally: Tally, order: Ints, weights: Ints, is_mark: Mask, is_touched: Mask, output: pa.Table
    ) -> StepResult:
        ids = tally.ids[order]
        touched = np.unique(ids[is_touched])
        is_kept = contains(touched, ids) & ((weights != 0) | is_mark)
        kept = with_weights(tally.rows.take(pa.array(order[is_kept])), weights[is_kept])
        place = kept.schema.get_field_index(MARK)
        kept = kept.set_column(place, kept.schema.field(place), pa.array(is_mark[is_kept]))
        deleted = touched[~contains(np.unique(ids[is_kept]), touched)]
        return StepResult(rows=kept, deleted=deleted, output=output)


def _running_sum(numbers: Ints, starts: Ints) -> Ints:
    """The running sum of the numbers within each group."""
    total = np.cumsum(numbers)
    lengths = np.diff(np.append(starts, len(numbers)))
    before = np.concatenate(([0], total))[starts]
    found: Ints = total - np.repeat(before, lengths)
    return found
