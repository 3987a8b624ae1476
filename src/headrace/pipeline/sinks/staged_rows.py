"""Rows on their way from Spark's tasks to the commit on the driver: in the commit message, or in a file if many.

The file is in a folder that the tasks and the driver can both reach: by default in the checkpoint.
"""

from __future__ import annotations

import itertools
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pyarrow.ipc
from pyspark.sql.datasource import WriterCommitMessage

from headrace.errors import HeadraceError
from headrace.pipeline.addresses import is_remote, local_path
from headrace.pipeline.errors import BadSink

INLINE_BYTES_MAX = 1_000_000
"""Of one task. Spark's driver takes 1 GiB of results in all (spark.driver.maxResultSize), from any number of tasks."""

FOLDER = "headrace-staging"
SUFFIX = ".arrow"


@dataclass(frozen=True, slots=True)
class StagedRows(WriterCommitMessage):
    """What one task hands over."""

    rows: int
    inline: bytes = b""
    file: str = ""


def query_folder(checkpoint: str, staging: str | None) -> str:
    """Of one query alone: in its checkpoint, which all machines reach, or under its own name in the given folder."""
    if staging is None:
        return str(shared_folder(checkpoint) / FOLDER)
    return str(shared_folder(staging) / str(uuid.uuid5(uuid.NAMESPACE_URL, checkpoint)))


def batch_folder(staging: str | None) -> str:
    """Shared by all that write here; each removes its own."""
    return str(shared_folder(staging) if staging else Path(tempfile.gettempdir()) / FOLDER)


def shared_folder(address: str) -> Path:
    if is_remote(address):
        raise BadSink(
            f"{address} is not a folder of this machine",
            hint="the formats need a checkpoint in a folder that driver and executors share; a Job has no such need",
        )
    return local_path(address)


def stage(rows: Iterable[pyarrow.RecordBatch], folder: str) -> StagedRows:
    left = iter(rows)
    kept: list[pyarrow.RecordBatch] = []
    kept_bytes = 0
    for batch in left:
        kept.append(batch)
        kept_bytes += batch.nbytes
        if kept_bytes > INLINE_BYTES_MAX:
            return _stage_file(itertools.chain(kept, left), kept[0].schema, folder)
    if not kept:
        return StagedRows(rows=0)
    sink = pyarrow.BufferOutputStream()
    count = _write(kept, kept[0].schema, sink)
    return StagedRows(rows=count, inline=sink.getvalue().to_pybytes())


def _stage_file(rows: Iterable[pyarrow.RecordBatch], schema: pyarrow.Schema, folder: str) -> StagedRows:
    """Under a name of its own: a task may be retried, or run twice at the same time."""
    path = Path(folder) / f"{uuid.uuid4()}{SUFFIX}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with pyarrow.OSFile(str(path), "wb") as sink:
        count = _write(rows, schema, sink)
    return StagedRows(rows=count, file=str(path))


def _write(rows: Iterable[pyarrow.RecordBatch], schema: pyarrow.Schema, sink: pyarrow.NativeFile) -> int:
    count = 0
    with pyarrow.ipc.new_stream(sink, schema) as writer:
        for batch in rows:
            writer.write_batch(batch)
            count += batch.num_rows
    return count


def read_staged(staged: Sequence[StagedRows]) -> Iterator[pyarrow.RecordBatch]:
    for each in staged:
        if each.inline:
            yield from pyarrow.ipc.open_stream(each.inline)
        elif each.file:
            yield from _read_file(Path(each.file))


def _read_file(path: Path) -> Iterator[pyarrow.RecordBatch]:
    try:
        source = pyarrow.memory_map(str(path))
    except FileNotFoundError as error:
        raise HeadraceError(
            f"rows that a task has written to {path} are not there",
            hint='on a cluster give .option("staging", …): a folder that the driver and all executors share',
        ) from error
    with source:
        yield from pyarrow.ipc.open_stream(source)


def discard(staged: Sequence[StagedRows]) -> None:
    """Remove the files of this batch."""
    for each in staged:
        if each.file:
            Path(each.file).unlink(missing_ok=True)


def sweep(folder: str) -> None:
    """Remove all that a query has staged. Between two batches none of it is of use: a crash or a slow task left it."""
    for path in Path(folder).glob(f"*{SUFFIX}"):
        path.unlink(missing_ok=True)
