"""What a task of Spark does for the `Delta` sink: write its rows as files, which a commit adds to the table."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator
from functools import partial

import msgspec
import pyarrow as pa
from msgspec import Struct

from headrace.pipeline.errors import SinkUnavailable
from headrace.pipeline.sinks.chunks import chunks_of
from headrace.pipeline.sinks.delta_files import DeltaFile, DeltaFolder, write_files
from headrace.pipeline.sinks.sink import failed_rows, split_failed
from headrace.pipeline.sinks.task_response import REJECTED_BYTES_MAX, TaskResponse, respond, too_many_rejected
from headrace.plan_names import FAILED_ROW

CHUNK_BYTES = 32 * 1024 * 1024
"""Rows that a task has in memory at a time: a group of rows in the file."""


class DeltaTaskPlan(Struct, frozen=True, kw_only=True):
    """What every task of a batch needs."""

    name: str
    folder: DeltaFolder
    schema: bytes
    """Of the table, in Arrow's format."""
    file_bytes: int


def write_part(plan: DeltaTaskPlan, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of `mapInArrow`."""
    return respond(partial(write_rows, plan), batches)


def write_rows(plan: DeltaTaskPlan, batches: Iterable[pa.RecordBatch]) -> TaskResponse:
    schema = pa.ipc.read_schema(pa.py_buffer(plan.schema))
    failed: list[str] = []

    def good_rows() -> Iterator[pa.Table]:
        for rows in chunks_of(batches, CHUNK_BYTES):
            if FAILED_ROW in rows.column_names:
                rows, texts = split_failed(rows)
                failed.extend(texts)
            yield rows.select(schema.names)

    now_ms = int(time.time() * 1000)
    try:
        files = list(write_files(plan.folder, good_rows(), schema, plan.file_bytes, now_ms))
    except OSError as error:
        raise SinkUnavailable(
            f"files of the table {plan.name} can't be written: {error}",
            hint="executors need access to the folder of the table",
        ) from error
    rejected = pickle.dumps(failed_rows(failed)) if failed else b""
    if len(rejected) > REJECTED_BYTES_MAX:
        raise too_many_rejected(f"delta {plan.name}", failed_rows(failed[-1:])[0].reason)
    return TaskResponse(
        written=sum(each.rows for each in files),
        rejected=[rejected] if rejected else [],
        result=msgspec.msgpack.encode(files),
    )


def files_of(responses: Iterable[TaskResponse]) -> list[DeltaFile]:
    found = [each.result for each in responses if each.result is not None]
    return [file for result in found for file in msgspec.msgpack.decode(result, type=list[DeltaFile])]
