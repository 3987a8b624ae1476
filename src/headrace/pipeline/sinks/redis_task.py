"""What a task of Spark does for the `Redis` sink: write its part of a batch, in transactions that check the fence.

A task has all rows of its keys, first to last: a later chunk may replace what an earlier one wrote. The driver
writes the fence when all tasks have ended. A task that runs twice writes the same, and nothing after the fence.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from msgspec import Struct

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.chunks import RANK_IN_ROWS, chunks_of
from headrace.pipeline.sinks.redis_client import FencedRedis, RedisTarget
from headrace.pipeline.sinks.redis_commands import RedisLayout
from headrace.pipeline.sinks.sink import RejectedRow, failed_rows, split_failed
from headrace.pipeline.sinks.task_response import REJECTED_BYTES_MAX, TaskResponse, respond, too_many_rejected
from headrace.plan_names import FAILED_ROW

CHUNK_BYTES = 4 * 1024 * 1024
"""Rows become commands a chunk at a time; commands in Python take some twenty times the memory."""


class RedisTaskPlan(Struct, frozen=True, kw_only=True):
    """What every task of a batch needs."""

    target: RedisTarget
    layout: RedisLayout
    fence: Fence


def write_part(plan: RedisTaskPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of `mapInArrow`."""
    return respond(partial(write_rows, plan), batches)


def write_rows(plan: RedisTaskPlan, batches: Iterable[pa.RecordBatch]) -> TaskResponse:
    written, rejected = 0, Rejections(plan.target.name)
    connection: FencedRedis | None = None
    try:
        for rows in chunks_of(batches, CHUNK_BYTES):
            connection = connection or FencedRedis(plan.target)
            if RANK_IN_ROWS in rows.column_names:
                rows = rows.drop_columns(RANK_IN_ROWS)
            if FAILED_ROW in rows.column_names:
                rows, failed = split_failed(rows)
                rejected.add(failed_rows(failed))
            commands, without_key = plan.layout.commands(rows)
            refused = connection.write(commands, plan.fence)
            rejected.add([*without_key, *refused])
            written += len(rows) - len(without_key) - len(refused)
    finally:
        if connection is not None:
            connection.close()
    return TaskResponse(written=written, rejected=rejected.packed())


class Rejections:
    """The rejected rows of one task."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._packed: list[bytes] = []
        self._bytes = 0

    def add(self, rows: list[RejectedRow]) -> None:
        if not rows:
            return
        self._packed.append(pickle.dumps(rows))
        self._bytes += len(self._packed[-1])
        if self._bytes > REJECTED_BYTES_MAX:
            raise too_many_rejected(self._target, rows[-1].reason)

    def packed(self) -> list[bytes]:
        return self._packed
