"""The writer of the `Table` sink in PostgreSQL, on the driver, for rows that the driver should not hold.

Tasks stage the rows of a batch (`table_task`). Then one transaction of the database merges them and writes the fence
(`table_merge`). A small batch is written as in SQLite: fewer steps, and no task waits for Python.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline import points
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.changes import last_positions
from headrace.pipeline.sinks.chunks import RANK_IN_ROWS, by_key
from headrace.pipeline.sinks.driver_rows import collect, collect_few
from headrace.pipeline.sinks.sink import Reject, RejectedRow, failed_rows
from headrace.pipeline.sinks.table_postgres import PostgresStore
from headrace.pipeline.sinks.table_stage import REASON_IN_ROWS, StageLayout, unpacked
from headrace.pipeline.sinks.table_store import TableShape
from headrace.pipeline.sinks.table_task import (
    RESPONSE_COLUMNS,
    StagedPart,
    StagePlan,
    stage_part,
    stage_rows,
)
from headrace.pipeline.sinks.table_writer import TableWriter
from headrace.pipeline.sinks.task_response import raise_task_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


ROW_BYTES = 100
"""Of a row in a file, for batches of files."""


class StagingTableWriter(TableWriter):
    """Of PostgreSQL: rows that a driver should not hold are staged in chunks, by tasks if Spark has them."""

    def __init__(
        self,
        store: PostgresStore,
        shape: TableShape,
        layout: StageLayout,
        order_by: str | None,
        *,
        driver_rows_max: int,
    ) -> None:
        super().__init__(store, shape, order_by)
        self._postgres = store
        self._layout = layout
        self._driver_rows_max = driver_rows_max

    def write(self, batch: DataFrame, fence: Fence, reject: Reject) -> int:
        rows = collect_few(batch, fence, self._driver_rows_max, row_bytes=ROW_BYTES)
        if rows is not None:
            return self.apply_collected(rows, fence, reject)

        def stage(plan: StagePlan) -> list[StagedPart]:
            parts = by_key(batch, self._shape.key, fence) if self._has_rows_replaced else batch
            responses = parts.mapInArrow(functools.partial(stage_part, plan), RESPONSE_COLUMNS)
            return [StagedPart(**line) for found in collect(responses) for line in found.to_pylist()]

        return self._write_staged(fence, reject, stage)

    def apply(self, rows: Iterable[pa.RecordBatch], fence: Fence, reject: Reject) -> int:
        left = (batch for batch in rows if batch.num_rows)
        few = list(itertools.islice(left, 1))
        while few and sum(batch.num_rows for batch in few) <= self._driver_rows_max:
            batch = next(left, None)
            if batch is None:
                break
            few.append(batch)
        if sum(batch.num_rows for batch in few) <= self._driver_rows_max:
            return super().apply(few, fence, reject)

        def stage(plan: StagePlan) -> list[StagedPart]:
            return [stage_rows(plan, itertools.chain(few, left), attempt=0)]

        return self._write_staged(fence, reject, stage)

    def clear(self) -> None:
        super().clear()
        self._postgres.drop_stages()

    @property
    def _has_rows_replaced(self) -> bool:
        """Whether only the last row of a key counts."""
        return self._shape.replaces_rows and not self._shape.merge

    def _write_staged(
        self, fence: Fence, reject: Reject, stage_all: Callable[[StagePlan], list[StagedPart]]
    ) -> int:
        kept = self.applied()
        if kept is not None and kept.covers(fence):
            return 0
        stage = self._postgres.create_stage(self._layout, fence)
        try:
            parts = stage_all(StagePlan(address=self._postgres.address, stage=stage, layout=self._layout))
            raise_task_error((part.error, part.hint, part.is_permanent) for part in parts)
            points.reached("after-stage", job=fence.job)
            return self._merge(stage, parts, fence, reject)
        finally:
            self._postgres.drop_stages()

    def _merge(self, stage: str, parts: Sequence[StagedPart], fence: Fence, reject: Reject) -> int:
        rejected = [row for part in parts for row in failed_rows(part.failed)]
        rejected += self._without_keys(parts)
        with self._store.transaction():
            kept = self._store.fence()
            if kept is not None and kept.covers(fence):
                return 0
            if self._shape.mode == "replace":
                self._store.delete_all()
            written, found = self._postgres.merge(self._layout, stage, parts)
            rejected += found
            self._store.keep_fence(fence)
            if rejected:
                reject(rejected)
        return written

    def _without_keys(self, parts: Sequence[StagedPart]) -> Iterator[RejectedRow]:
        """Rows without a key, and of those whose key can't be staged the last one: earlier ones are replaced by it."""
        tables = [unpacked(part.rejected) for part in parts if part.rejected is not None]
        if not tables:
            return
        rows = pa.concat_tables(tables).sort_by(RANK_IN_ROWS)
        has_key = functools.reduce(pc.and_, [pc.is_valid(rows[name]) for name in self._shape.key] or [True])
        yield from _rejected_rows(rows.filter(pc.invert(has_key)))
        keyed = rows.filter(has_key)
        if self._has_rows_replaced:
            positions = np.concatenate(last_positions(keyed, self._shape.key, self._order_by))
            keyed = keyed.take(pa.array(np.sort(positions)))
        yield from _rejected_rows(keyed)


def _rejected_rows(rows: pa.Table) -> Iterator[RejectedRow]:
    reasons = rows[REASON_IN_ROWS].to_pylist()
    for row, reason in zip(
        rows.drop_columns([RANK_IN_ROWS, REASON_IN_ROWS]).to_pylist(), reasons, strict=True
    ):
        yield RejectedRow(row=row, reason=reason)
