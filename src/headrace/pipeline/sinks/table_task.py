"""What a task of Spark does for the `Table` sink in PostgreSQL: copy its rows into the staging table of the batch.

All of them in one transaction, under the number of the task's attempt: the driver merges only the attempts whose
responses it has. Rows are read in chunks. If rows replace others, a task has all rows of its keys, and stages the last
row of each: once, unless these rows exceed the memory for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark import TaskContext

from headrace.errors import HeadraceError
from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.changes import RETRACTIONS, last_positions
from headrace.pipeline.sinks.chunks import RANK_IN_ROWS, chunks_of
from headrace.pipeline.sinks.json_text import json_as_text
from headrace.pipeline.sinks.postgres_client import connect, postgres_errors, rejected_by_halves
from headrace.pipeline.sinks.sink import split_failed
from headrace.pipeline.sinks.table_copy import copy_rows, with_nul
from headrace.pipeline.sinks.table_stage import (
    REASON_IN_ROWS,
    TASK_ROWS_BITS,
    StageLayout,
    packed,
)
from headrace.pipeline.sinks.table_store import RowRejection
from headrace.pipeline.sinks.task_response import REJECTED_BYTES_MAX, too_many_rejected
from headrace.plan_names import FAILED_ROW

CHUNK_BYTES = 16 * 1024 * 1024
"""Rows that a task reads at a time."""

KEPT_BYTES_MAX = 32 * 1024 * 1024
"""Of the last rows of their keys, before a task stages them. The more, the fewer rows of one key are staged."""

SESSION = "SET LOCAL synchronous_commit = off"
"""The stage is lost in a crash anyway, and the merge waits for the disk."""

RESPONSE_COLUMNS = (
    "attempt BIGINT, rows BIGINT, chunks BIGINT, deletes BIGINT, marked BIGINT, "
    "rejected BINARY, failed ARRAY<STRING>, error STRING, hint STRING, is_permanent BOOLEAN"
)
RESPONSE_SCHEMA = pa.schema(
    [
        ("attempt", pa.int64()),
        ("rows", pa.int64()),
        ("chunks", pa.int64()),
        ("deletes", pa.int64()),
        ("marked", pa.int64()),
        ("rejected", pa.binary()),
        ("failed", pa.list_(pa.string())),
        ("error", pa.string()),
        ("hint", pa.string()),
        ("is_permanent", pa.bool_()),
    ]
)


class StagePlan(Struct, frozen=True, kw_only=True):
    """What every task of a batch needs."""

    address: str
    """With the password. It is in no text: the plan of a query shows the name of the task's function only."""
    stage: str
    layout: StageLayout

    def __repr__(self) -> str:
        return f"StagePlan(stage={self.stage!r})"


class StagedPart(Struct, kw_only=True):
    """What one task has staged."""

    attempt: int
    rows: int = 0
    """In the staging table; `marked` ones included."""
    chunks: int = 0
    """Within a chunk each key has one row, if rows replace others."""
    deletes: int = 0
    marked: int = 0
    """Rows that are rejected if they are the last of their key."""
    rejected: bytes | None = None
    """Rows without a usable key, with `rank` and `reason`, in Arrow's format."""
    failed: list[str] = []
    """Rows on which an expression failed, as JSON."""
    error: str | None = None
    hint: str | None = None
    is_permanent: bool = False


def stage_part(plan: StagePlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of `mapInArrow`."""
    context = TaskContext.get()
    assert context is not None, "this runs in a task"
    rows = iter(batches)
    attempt = context.taskAttemptId()
    try:
        part = stage_rows(plan, rows, attempt=attempt, task=context.partitionId())
    except HeadraceError as error:
        for _ in rows:  # Spark can't use a worker again that has not read all rows
            pass
        part = StagedPart(
            attempt=attempt, error=str(error), hint=error.hint, is_permanent=isinstance(error, BadSink)
        )
    yield pa.RecordBatch.from_pylist(
        [{name: getattr(part, name) for name in RESPONSE_SCHEMA.names}], schema=RESPONSE_SCHEMA
    )


def stage_rows(
    plan: StagePlan, batches: Iterable[pa.RecordBatch], *, attempt: int, task: int = 0
) -> StagedPart:
    """Stage the rows of one task, or of a driver that has them in chunks."""
    with contextlib.ExitStack() as stack:
        stager = _Stager(plan, StagedPart(attempt=attempt), stack, first_rank=task << TASK_ROWS_BITS)
        for chunk in chunks_of(batches, CHUNK_BYTES):
            stager.add(chunk)
        return stager.finish()


class _Stager:
    """Stages chunk after chunk; connects with the first one. The stack ends the transaction."""

    def __init__(
        self, plan: StagePlan, part: StagedPart, stack: contextlib.ExitStack, *, first_rank: int
    ) -> None:
        self.part = part
        self._stack = stack
        self._plan = plan
        self._layout = plan.layout
        self._next_rank = first_rank
        self._connection: psycopg.Connection | None = None
        shape = plan.layout.shape
        self._keeps_last = shape.replaces_rows and not shape.merge
        self._kept: pa.Table | None = None
        self._without_key: list[pa.Table] = []
        self._without_key_bytes = 0

    def add(self, rows: pa.Table) -> None:
        rows = self._ranked(json_as_text(rows))
        if FAILED_ROW in rows.column_names:
            rows, failed = split_failed(rows)
            self.part.failed += failed
        rows = self._without_null_keys(rows)
        if not self._keeps_last:
            self._stage(rows)
            return
        kept = rows if self._kept is None else pa.concat_tables([self._kept, rows])
        self._kept = self._last_of_keys(kept.combine_chunks())
        if self._kept.nbytes > KEPT_BYTES_MAX:
            self._stage_kept()

    def finish(self) -> StagedPart:
        self._stage_kept()
        if self._without_key:
            self.part.rejected = packed(pa.concat_tables(self._without_key))
        return self.part

    def _stage_kept(self) -> None:
        """In the order of the key: neighbours in the stage are neighbours in the index of the table."""
        kept, self._kept = self._kept, None
        if kept is None:
            return
        order = pc.sort_indices(kept, sort_keys=[(name, "ascending") for name in self._layout.shape.key])
        kept = kept.take(order)
        op = self._layout.op
        if op is not None:
            is_deleted = pc.is_in(kept[op.name], value_set=pa.array(RETRACTIONS, kept[op.name].type))
            self.part.deletes += pc.sum(is_deleted).as_py() or 0
        self._stage(kept)

    def _ranked(self, rows: pa.Table) -> pa.Table:
        """Spark has ranked the rows before it moved them to the tasks of their keys."""
        if RANK_IN_ROWS in rows.column_names:
            return rows
        ranks = np.arange(self._next_rank, self._next_rank + len(rows))
        self._next_rank += len(rows)
        return rows.append_column(RANK_IN_ROWS, pa.array(ranks))

    def _without_null_keys(self, rows: pa.Table) -> pa.Table:
        for name in self._layout.shape.key:
            is_bad = pc.is_null(rows[name])
            if pc.any(is_bad).as_py():
                self._reject(rows.filter(is_bad), f"the key {name} is null")
                rows = rows.filter(pc.invert(is_bad))
        return rows

    def _last_of_keys(self, rows: pa.Table) -> pa.Table:
        order_by = None if self._layout.order is None else self._layout.order.name
        positions = last_positions(rows, self._layout.shape.key, order_by, RANK_IN_ROWS)
        return rows.take(pa.array(np.concatenate(positions)))

    def _stage(self, rows: pa.Table) -> None:
        """Rows that PostgreSQL can't read are marked."""
        if not len(rows):
            return
        self._connect()
        self.part.chunks += 1
        reasons = {each.position: each.reason for each in with_nul(rows.select(self._layout.shape.names))}
        good = rows if not reasons else rows.take(_others(reasons, len(rows)))
        found = {each.position: each.reason for each in self._copied(self._staged(good))}
        self.part.rows += len(good) - len(found)
        if reasons:
            self._mark(rows.take(pa.array(sorted(reasons))), [reasons[each] for each in sorted(reasons)])
        if found:
            self._mark(good.take(pa.array(sorted(found))), [found[each] for each in sorted(found)])

    def _connect(self) -> None:
        if self._connection is not None:
            return
        self._stack.enter_context(postgres_errors(self._plan.address))
        self._connection = connect(self._plan.address, self._layout.shape.job)
        self._stack.callback(self._connection.close)
        self._stack.enter_context(self._connection.transaction())
        self._connection.execute(SESSION)

    def _mark(self, rows: pa.Table, reasons: list[str]) -> None:
        """Stage the rows with their keys only; those whose keys can't be staged go to the driver."""
        bad_keys = {each.position for each in with_nul(rows.select(list(self._layout.shape.key)))}
        keyed = _others(bad_keys, len(rows)).to_pylist()
        marked = self._layout.marked(
            rows.drop_columns(RANK_IN_ROWS).take(pa.array(keyed, pa.int64())),
            rows[RANK_IN_ROWS].to_numpy()[keyed],
            self.part.attempt,
            [reasons[position] for position in keyed],
        )
        bad_keys |= {keyed[each.position] for each in self._copied(marked)}
        self.part.rows += len(rows) - len(bad_keys)
        self.part.marked += len(rows) - len(bad_keys)
        for position in sorted(bad_keys):
            self._reject(rows.slice(position, 1), reasons[position])

    def _staged(self, rows: pa.Table) -> pa.Table:
        return self._layout.staged(rows, rows[RANK_IN_ROWS].to_numpy(), self.part.attempt)

    def _copied(self, staged: pa.Table) -> Iterator[RowRejection]:
        connection = self._connection
        assert connection is not None, "`_stage` has connected"

        def copy(begin: int, end: int) -> None:
            copy_rows(connection, self._plan.stage, staged.slice(begin, end - begin))

        return rejected_by_halves(connection, self._layout.shape.name, len(staged), copy)

    def _reject(self, rows: pa.Table, reason: str) -> None:
        rows = rows.append_column(REASON_IN_ROWS, pa.array([reason] * len(rows), pa.string()))
        self._without_key.append(rows)
        self._without_key_bytes += rows.nbytes
        if self._without_key_bytes > REJECTED_BYTES_MAX:
            raise too_many_rejected(f"table {self._layout.shape.name}", reason)


def _others(positions: Iterable[int], count: int) -> pa.Array:
    is_other = np.ones(count, dtype=bool)
    is_other[list(positions)] = False
    return pa.array(np.flatnonzero(is_other))
