"""The net changes of one batch: for every key either the row to upsert, or a deletion.

Pure Arrow, for every sink that keeps rows by key. The column `op` is the kind of a change: `d` and `-` delete the key,
everything else (`c`, `u`, `r`, `+`, null) upserts its row. Columns that begin with `_` are metadata of the source, and
are not stored unless the user selects them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headrace.pipeline.sinks.sink import RejectedRow

OP = "op"
RETRACTIONS = ("d", "-")
METADATA_PREFIX = "_"
OFFSET = "_offset"
"""The offset of a record: the order of rows if the user names no other."""

_RANK = "headrace_rank"


class Changes(Struct, frozen=True, kw_only=True):
    """One row for each key in both tables together. Positions are those of the rows in the batch."""

    upserts: pa.Table
    """Without `op` and without the columns that are not stored."""

    deletes: pa.Table
    """The key columns only."""

    upsert_positions: pa.Array
    delete_positions: pa.Array


def has_op(schema: pa.Schema) -> bool:
    """Whether the rows are changes. A column `op` that is no text is the user's own."""
    return OP in schema.names and _is_text(schema.field(OP).type)


def stored_columns(schema: pa.Schema, *, keep: Sequence[str] = ()) -> list[str]:
    """The columns that go into a target: all but `op` and metadata, and of these the ones in `keep`."""
    is_op = {OP} if has_op(schema) else set()
    return [
        name
        for name in schema.names
        if name in keep or not (name in is_op or name.startswith(METADATA_PREFIX))
    ]


def table_of(batches: Iterable[pa.RecordBatch]) -> pa.Table | None:
    """The rows of a micro-batch; None if there are none."""
    filled = [batch for batch in batches if batch.num_rows]
    return pa.Table.from_batches(filled) if filled else None


def without_null_keys(rows: pa.Table, key: Sequence[str]) -> tuple[pa.Table, list[RejectedRow]]:
    """Reject the rows with a null in the key: targets reject them, or never find them again."""
    rejected: list[RejectedRow] = []
    for name in key:
        rows, found = without_bad(rows, pc.is_null(rows[name]), f"the key {name} is null")
        rejected += found
    return rows, rejected


def without_bad(
    rows: pa.Table, is_bad: pa.Array | pa.ChunkedArray, reason: str
) -> tuple[pa.Table, list[RejectedRow]]:
    if not pc.any(is_bad).as_py():
        return rows, []
    rejected = [RejectedRow(row=row, reason=reason) for row in rows.filter(is_bad).to_pylist()]
    return rows.filter(pc.invert(is_bad)), rejected


def collapse(
    rows: pa.Table, *, key: Sequence[str], order_by: str | None = None, keep: Sequence[str] = ()
) -> Changes:
    """The last row of every key, in the order of `order_by` (by default `_offset`, if the rows have it).

    Without an order, an assertion wins over a retraction, because an update consists of both; of several assertions
    the last one wins.
    """
    upsert_positions, delete_positions = last_positions(rows, key, order_by)
    columns = stored_columns(rows.schema, keep=[*key, *keep])
    return Changes(
        upserts=_take(rows.select(columns), upsert_positions),
        deletes=_take(rows.select(list(key)), delete_positions),
        upsert_positions=pa.array(upsert_positions),
        delete_positions=pa.array(delete_positions),
    )


def last_positions(
    rows: pa.Table, key: Sequence[str], order_by: str | None = None, rank: str | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Of the last row of every key, as in `collapse`: of those that upsert, and of those that delete.

    `rank` is a column with the places that the rows have in the batch, if these are not in their order.
    """
    is_deleted = _retracted(rows)
    positions = _last_positions(rows, key, _order(rows, order_by, is_deleted, rank))
    if is_deleted is None:
        return positions, positions[:0]
    is_deleted_at = is_deleted[positions]
    return positions[~is_deleted_at], positions[is_deleted_at]


def accumulate(
    rows: pa.Table,
    *,
    key: Sequence[str],
    how: Mapping[str, str],
    order_by: str | None = None,
    keep: Sequence[str] = (),
) -> Changes:
    """One row a key: `how` names the columns that are summed up (`sum`) or of which the least (`min`) or the greatest
    (`max`) value is kept; the other columns are those of the last row. Nothing is deleted."""
    assert not has_op(rows.schema), "a retraction can't be summed up"
    order = _order(rows, order_by, None)
    grouped = _grouped(rows, key, order, how)
    positions = _positions(grouped, order)
    upserts = rows.select(stored_columns(rows.schema, keep=[*key, *keep, *how])).take(pa.array(positions))
    for name, function in how.items():
        values = grouped[f"{name}_{function}"]
        upserts = upserts.set_column(upserts.schema.get_field_index(name), name, values)
    return Changes(
        upserts=upserts,
        deletes=rows.select(list(key)).slice(0, 0),
        upsert_positions=pa.array(positions),
        delete_positions=pa.array(positions[:0]),
    )


def _retracted(rows: pa.Table) -> np.ndarray | None:
    """For each row whether it deletes its key; None if no row does."""
    if not has_op(rows.schema):
        return None
    op = rows[OP]
    is_deleted = pc.is_in(op, value_set=pa.array(RETRACTIONS, op.type))
    return is_deleted.to_numpy() if pc.any(is_deleted).as_py() else None


def _order(
    rows: pa.Table, order_by: str | None, is_deleted: np.ndarray | None, rank: str | None = None
) -> np.ndarray | None:
    """Positions from the first row to the last; None if they are in order."""
    by = order_by or (OFFSET if OFFSET in rows.schema.names else None)
    if by is None and is_deleted is None and rank is None:
        return None
    keys: dict[str, pa.ChunkedArray | pa.Array] = {}
    if by is not None:
        keys["by"] = rows[by]
    if is_deleted is not None:
        keys["is_upsert"] = pa.array(~is_deleted)
    if rank is not None:
        keys["rank"] = rows[rank]
    # A null in the order is before all other values.
    indices = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending", "at_start") for name in keys])
    return np.asarray(indices)


def _last_positions(rows: pa.Table, key: Sequence[str], order: np.ndarray | None) -> np.ndarray:
    """The position of the last row of every key; in their own order if there is one row a key."""
    grouped = _grouped(rows, key, order, {})
    return np.arange(len(rows)) if len(grouped) == len(rows) else _positions(grouped, order)


def _grouped(
    rows: pa.Table, key: Sequence[str], order: np.ndarray | None, how: Mapping[str, str]
) -> pa.Table:
    rank = np.arange(len(rows))
    if order is not None:
        rank[order] = np.arange(len(rows))
    ranked = rows.select([*key, *how]).append_column(_RANK, pa.array(rank))
    return ranked.group_by(list(key), use_threads=False).aggregate([(_RANK, "max"), *how.items()])


def _positions(grouped: pa.Table, order: np.ndarray | None) -> np.ndarray:
    last_rank: np.ndarray = grouped[f"{_RANK}_max"].to_numpy()
    return last_rank if order is None else order[last_rank]


def _take(rows: pa.Table, positions: np.ndarray) -> pa.Table:
    """All of them at their places need no copy."""
    return rows if len(positions) == len(rows) else rows.take(pa.array(positions))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
