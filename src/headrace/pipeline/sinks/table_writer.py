"""The writers of the `Table` sink, on the driver: a batch is one transaction of the database, and the fence is in it.

Arrow computes the rows to write before the transaction begins; `table_store` and its databases write them. In
PostgreSQL, tasks stage the rows of a larger batch (`table_task`), and the database computes what to write.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.changes import (
    Changes,
    accumulate,
    collapse,
    table_of,
    without_null_keys,
)
from headrace.pipeline.sinks.json_text import json_as_text
from headrace.pipeline.sinks.sink import Reject, RejectedRow, SinkWriter
from headrace.pipeline.sinks.table_store import RowRejection, TableShape, TableStore

if TYPE_CHECKING:
    pass


class TableWriter(SinkWriter):
    def __init__(self, store: TableStore, shape: TableShape, order_by: str | None) -> None:
        self._store = store
        self._shape = shape
        self._order_by = order_by

    def applied(self) -> Fence | None:
        return self._store.fence()

    def apply(self, rows: Iterable[pa.RecordBatch], fence: Fence, reject: Reject) -> int:
        rejected: list[RejectedRow] = []
        batch, changes = table_of(rows), None
        if batch is not None:
            batch, rejected = without_null_keys(json_as_text(batch.combine_chunks()), self._shape.key)
            changes = self._changes(batch)
        with self._store.transaction():
            kept = self._store.fence()
            if kept is not None and kept.covers(fence):
                return 0
            if self._shape.mode == "replace":
                self._store.delete_all()
            written = 0
            if batch is not None and changes is not None:
                not_deleted = self._store.delete(changes.deletes)
                rejected += self._rejected(batch, changes.delete_positions, not_deleted)
                not_put = self._store.put(changes.upserts)
                rejected += self._rejected(batch, changes.upsert_positions, not_put)
                written = len(changes.upserts) + len(changes.deletes) - len(not_deleted) - len(not_put)
            self._store.keep_fence(fence)
            if rejected:
                reject(rejected)
        return written

    def clear(self) -> None:
        with self._store.transaction():
            self._store.delete_all()
            self._store.delete_fence()

    def close(self) -> None:
        self._store.close()

    def _changes(self, batch: pa.Table) -> Changes:
        """In the order of the key: neighbours in the batch are neighbours in the database."""
        shape = self._shape
        names = shape.names
        if not shape.replaces_rows:
            positions = pa.array(np.arange(len(batch)))
            return Changes(
                upserts=batch.select(names),
                deletes=batch.select(list(shape.key)).slice(0, 0),
                upsert_positions=positions,
                delete_positions=positions[:0],
            )
        if shape.merge:
            changes = accumulate(batch, key=shape.key, how=shape.merge, order_by=self._order_by, keep=names)
        else:
            changes = collapse(batch, key=shape.key, order_by=self._order_by, keep=names)
        order = pc.sort_indices(changes.upserts, sort_keys=[(name, "ascending") for name in shape.key])
        return replace(
            changes,
            upserts=changes.upserts.select(names).take(order),
            upsert_positions=changes.upsert_positions.take(order),
        )

    def _rejected(
        self, batch: pa.Table, positions: pa.Array, found: Sequence[RowRejection]
    ) -> Iterator[RejectedRow]:
        """The original rows with all their columns. A merged row stands for several, and all of them are rejected."""
        for each in found:
            rows = batch.slice(positions[each.position].as_py(), 1)
            if self._shape.merge:
                is_same = [pc.equal(batch[name], rows[name][0]) for name in self._shape.key]
                rows = batch.filter(functools.reduce(pc.and_, is_same))
            for row in rows.to_pylist():
                yield RejectedRow(row=row, reason=each.reason)
