"""The step that turns changes by key into a changelog: it retracts the old row of a key and emits the new row.

The row of a key is the change that is last in the order, whenever it arrives. So a late or duplicate change has no
effect.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.state.ids import Hashes, Ids, Ints, Mask, distinct, ids_of, is_first
from headrace.operators.state.run import ids_column
from headrace.operators.state.step import Step, StepResult, StepTime
from headrace.operators.state.table import (
    StateTable,
    column_of,
    hashes_of,
    ids_in,
    ints_of,
    state_schema,
    with_column,
)
from headrace.operators.tables.weighted import ROW_HASH, changelog_schema, emitted, numbered

DELETED = "is_deleted"

UNKNOWN_VALUE = 0
"""The hash of a null, and of a value that no change has had yet."""


def value_hash(number: int) -> str:
    """The name of the column with the hash of a column whose value a change may lack; null if the change lacks it."""
    return f"v{number}"


class LatestStep(Step):
    """The latest row of each key.

    `columns` are the columns of a row, including its key; `order` are the columns that order changes. Without
    `keeps_deleted`, a deleted key is removed from the state: a change that arrives later restores it, even if it is
    earlier in the order.

    `unchanged` are the numbers of the columns whose value a change may lack: it is the one of the change before. They
    are no part of the hash of the row, and have hashes of their own.
    """

    def __init__(
        self,
        *,
        columns: Sequence[pa.Field],
        key: Sequence[str],
        order: Sequence[pa.Field],
        keeps_deleted: bool,
        unchanged: Sequence[int] = (),
    ) -> None:
        self.lacking = tuple(unchanged)
        self._keeps_deleted = keeps_deleted
        own = numbered("c", columns, key=key)
        self.columns = [each.name for each in own]
        self._is_key = [each.name in key for each in columns]
        self.order = [f"o{number}" for number in range(len(order))]
        self.state_schema = self.input_schema = state_schema(
            [
                pa.field(ROW_HASH, pa.int64()),
                pa.field(DELETED, pa.bool_()),
                *numbered("o", order, owner="order."),
                *own,
                *(pa.field(value_hash(number), pa.int64()) for number in self.lacking),
            ]
        )
        self.output_schema = changelog_schema(columns)

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        ids = distinct(ids_in(rows))
        if len(ids) == 0:
            return self.unchanged()
        before = table.take(ids)
        together = self.complete(pa.concat_tables([before, rows]).combine_chunks())
        winner = last_of_each(together, self.order)
        was = _position_of_each(before, ids)
        is_new = winner >= before.num_rows
        kept = self._kept(together.take(pa.array(winner)), is_new)
        deleted = np.asarray(column_of(together, DELETED))
        is_removed = is_new & deleted[winner] & (not self._keeps_deleted)
        return StepResult(
            rows=kept,
            deleted=ids[is_removed & (was >= 0)],
            output=self._output(together, was, winner, deleted),
        )

    def filled(self, rows: pa.Table) -> pa.Table:
        """The rows with the values that changes lack, from the rows of the same key before them. A row without one
        before it stays as it is."""
        if not any(column_of(rows, value_hash(number)).null_count for number in self.lacking):
            return rows
        positions, group = in_order(rows, self.order)
        places = np.arange(len(group))
        starts = np.maximum.accumulate(np.where(is_first(group), places, 0))
        for number in self.lacking:
            is_lacking = np.asarray(pc.is_null(column_of(rows, value_hash(number))))[positions]
            known = np.maximum.accumulate(np.where(is_lacking, -1, places))
            source = np.empty(len(places), np.int64)
            source[positions] = positions[np.where(known >= starts, known, places)]
            for name in (self.columns[number], value_hash(number)):
                rows = with_column(rows, name, column_of(rows, name).take(pa.array(source)))
        return rows

    def complete(self, rows: pa.Table) -> pa.Table:
        """The same, where no other rows can be before these."""
        rows = self.filled(rows)
        for number in self.lacking:
            name = value_hash(number)
            rows = with_column(rows, name, pc.fill_null(column_of(rows, name), UNKNOWN_VALUE))
        return rows

    def _kept(self, rows: pa.Table, is_new: Mask) -> pa.Table:
        """The new rows of the state. A deleted row keeps only its key and its order."""
        rows = rows.filter(pa.array(is_new)).combine_chunks()
        deleted = column_of(rows, DELETED)
        if not self._keeps_deleted:
            return rows.filter(pc.invert(deleted))
        if pc.any(deleted).as_py():
            alive = pa.array(np.arange(rows.num_rows), mask=np.asarray(deleted))
            for name, is_key in zip(self.columns, self._is_key, strict=True):
                if not is_key:
                    rows = with_column(rows, name, column_of(rows, name).take(alive))
        return rows

    def _output(self, together: pa.Table, was: Ints, winner: Ints, deleted: Mask) -> pa.Table:
        is_alive = ~deleted[winner]
        was_alive = (was >= 0) & ~deleted[was]
        is_other = ~(was_alive & is_alive)
        for name in (ROW_HASH, *map(value_hash, self.lacking)):
            hashes = ints_of(together, name)
            is_other |= hashes[was] != hashes[winner]
        retracted, added = was[was_alive & is_other], winner[is_alive & is_other]
        positions = pa.array(np.concatenate([retracted, added]))
        weights = np.repeat(np.array([-1, 1]), [len(retracted), len(added)])
        columns = [column_of(together, name).take(positions) for name in self.columns]
        return emitted(self.output_schema, columns, weights)


class LatestLift:
    """Lift rows with `h1` and `h2` of the key and the columns of the step to the last row of each key."""

    def __init__(self, step: LatestStep) -> None:
        self._step = step

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        first, second = hashes_of(rows)
        schema = self._step.input_schema
        columns = [
            ids_column(ids_of(first, second)),
            *(column_of(rows, each) for each in schema.names[1:]),
        ]
        table = self._step.filled(pa.table(columns, schema=schema))
        last = last_of_each(table, self._step.order)
        return table.take(pa.array(last)).combine_chunks(), first[last]


def last_of_each(rows: pa.Table, order: Sequence[str]) -> Ints:
    """The position of the last row of each id, in the order of the ids."""
    positions, group = in_order(rows, order)
    is_last = is_first(group[::-1])[::-1]
    found: Ints = positions[is_last]
    return found


def in_order(rows: pa.Table, order: Sequence[str]) -> tuple[Ints, Ints]:
    """The positions of the rows by id and in the order of the changes, and the number of each one's id.

    Nulls sort first. Among rows that are equal in the order, a row that exists wins over a deleted row, and then the
    hash decides: the choice must not depend on the order of arrival.
    """
    _, group = np.unique(ids_in(rows), return_inverse=True)
    keys = {"group": pa.array(group), **{name: column_of(rows, name) for name in order}}
    keys["is_alive"] = pc.invert(column_of(rows, DELETED))
    keys["hash"] = column_of(rows, ROW_HASH)
    ascending = [(name, "ascending", "at_start") for name in keys]
    positions = np.asarray(pc.sort_indices(pa.table(keys), sort_keys=ascending)).astype(np.int64)
    return positions, group[positions]


def _position_of_each(before: pa.Table, ids: Ids) -> Ints:
    """The position of the row of each id, or -1. The ids are sorted."""
    positions = np.full(len(ids), -1, dtype=np.int64)
    positions[np.searchsorted(ids, ids_in(before))] = np.arange(before.num_rows)
    return positions
