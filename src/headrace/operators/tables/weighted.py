"""Rows with weights: the state that joins, groups and newest rows share. Pure columns, no Spark.

A row that is added has weight 1, a row that is retracted has weight -1, and the weight of a row in the view is the sum.
So neither the order of changes nor their batches matter. A row that is retracted before it is added has a negative
weight: it is in the state, but not in the view.

The id of a row is a complex number. The real part is from the hash of its key, the imaginary part from the hash of the
row. So the rows of a key are adjacent: all of them can be read, and one can be changed without the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.operators.state.ids import (
    Hashes,
    Ids,
    Ints,
    contains,
    distinct,
    is_first,
    ranges,
    segment_starts,
)
from headrace.operators.state.run import COLUMN, LABEL, ids_column
from headrace.operators.state.table import StateTable, column_of, ids_in, ints_of, state_schema, with_column

KEY_HASH = "key_hash"
ROW_HASH = "row_hash"
WEIGHT = "weight"
OP = "op"
ADDED = "+"
RETRACTED = "-"

SIDES = 2
"""A key may have rows of two tables. The rows of the first table sort first."""

_KEY_BITS = 52
_ROW_BITS = 51
_SIDE = float(2**_ROW_BITS)


def weighted_schema(columns: Sequence[pa.Field]) -> pa.Schema:
    """The schema of state and input. It has the full hashes, to distinguish rows whose ids collide."""
    return state_schema([*(pa.field(name, pa.int64()) for name in (KEY_HASH, ROW_HASH, WEIGHT)), *columns])


def numbered(
    prefix: str, columns: Sequence[pa.Field], *, key: Sequence[str] = (), owner: str = ""
) -> list[pa.Field]:
    """The columns under names that can't clash. The metadata has the user's names, for reading the state."""
    fields = []
    for number, each in enumerate(columns):
        known = {COLUMN if each.name in key else LABEL: f"{owner}{each.name}".encode()}
        fields.append(pa.field(f"{prefix}{number}", each.type, metadata=known))
    return fields


def row_ids(keys: Hashes, rows: Hashes, sides: Ints | int = 0) -> Ids:
    ids = np.empty(len(keys), dtype=np.complex128)
    ids.real = (keys >> np.uint64(64 - _KEY_BITS)).astype(np.float64)
    ids.imag = (rows >> np.uint64(64 - _ROW_BITS)).astype(np.float64) + sides * _SIDE
    return ids


def sides_of(ids: Ids) -> Ints:
    return (ids.imag >= _SIDE).astype(np.int64)


def take_keys(table: StateTable, keys: npt.NDArray[np.float64], side: int | None = None) -> pa.Table:
    """All rows of the keys, of one side or of both. A key is the real part of its ids; keys are distinct."""
    first, end = np.empty(len(keys), np.complex128), np.empty(len(keys), np.complex128)
    first.real = end.real = keys
    first.imag = (side or 0) * _SIDE
    end.imag = (SIDES if side is None else side + 1) * _SIDE
    parts = []
    for run in table.runs:
        positions = ranges(np.searchsorted(run.ids, first), np.searchsorted(run.ids, end))
        parts.append(run.rows.take(pa.array(positions)))
    return table.current(parts)


class Tally:
    """Every row once, with its weight before and after the changes. Rows of a key are adjacent."""

    def __init__(self, before: pa.Table, changes: pa.Table) -> None:
        together = pa.concat_tables([before, changes]).combine_chunks()
        ids, keys, rows = ids_in(together), ints_of(together, KEY_HASH), ints_of(together, ROW_HASH)
        order = np.lexsort((rows, ids.imag, keys, ids.real))
        ids, keys, rows = ids[order], keys[order], rows[order]
        weights = ints_of(together, WEIGHT)[order]
        is_new_key = is_first(ids.real, keys)
        starts = segment_starts(ids, keys, rows)
        was = np.where(order < before.num_rows, weights, 0)
        self.rows = together.take(pa.array(order[starts])).combine_chunks()
        self.ids = ids[starts]
        self.weight_before = sums(was, starts)
        self.weight_after = sums(weights, starts)
        self.group = np.cumsum(is_new_key)[starts] - 1
        """The number of each row's key."""

    @property
    def before(self) -> Ints:
        return np.maximum(self.weight_before, 0)

    @property
    def after(self) -> Ints:
        return np.maximum(self.weight_after, 0)

    @property
    def group_starts(self) -> Ints:
        return segment_starts(self.group)

    def changes(self) -> tuple[pa.Table, Ids]:
        """The update of the state: the rows of all changed ids, and the ids without rows."""
        touched = distinct(self.ids[self.weight_before != self.weight_after])
        kept = contains(touched, self.ids) & (self.weight_after != 0)
        rows = with_column(self.rows.filter(pa.array(kept)), WEIGHT, pa.array(self.weight_after[kept]))
        is_empty = ~contains(distinct(self.ids[kept]), touched)
        return rows, touched[is_empty & contains(distinct(self.ids[self.weight_before != 0]), touched)]


def changelog_schema(columns: Sequence[pa.Field]) -> pa.Schema:
    return pa.schema([*(pa.field(each.name, each.type) for each in columns), pa.field(OP, pa.string())])


def emitted(schema: pa.Schema, columns: Sequence[pa.Array], weights: Ints) -> pa.Table:
    """Each row as often as its weight: retractions first, then additions."""
    retracted, added = np.flatnonzero(weights < 0), np.flatnonzero(weights > 0)
    positions = np.concatenate([np.repeat(retracted, -weights[retracted]), np.repeat(added, weights[added])])
    op = np.where(weights[positions] < 0, RETRACTED, ADDED)
    taken = pa.array(positions, pa.int64())
    return pa.table([*(each.take(taken) for each in columns), pa.array(op, pa.string())], schema=schema)


def sums(numbers: Ints, starts: Ints) -> Ints:
    return np.add.reduceat(numbers, starts) if len(starts) else np.empty(0, np.int64)


class WeightedLift:
    """Lift rows with `h1`, `h2` of the key, `r1`, `r2` of the row, `weight`, `side` for two tables, and the columns."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        keys, hashes = (ints_of(rows, name).view(np.uint64) for name in ("h1", "r1"))
        sides = ints_of(rows, "side") if "side" in rows.column_names else 0
        columns = [
            ids_column(row_ids(keys, hashes, sides)),
            *(column_of(rows, name) for name in ("h2", "r2", WEIGHT)),
            *(column_of(rows, name) for name in self._schema.names[4:]),
        ]
        return pa.table(columns, schema=self._schema), keys
