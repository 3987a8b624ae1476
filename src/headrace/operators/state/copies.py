"""Copies of the state of a query as files, so that another thread reads it without Spark.

    FOLDER/OWNER/BUCKET/RUN.arrow     a run: immutable, not compressed, mapped into memory by the reader
    FOLDER/OWNER/BUCKET/BATCH.json    the names of the runs after a batch, and until when their rows have expired

A task writes them after its step, before the batch can be committed. A reader selects for each bucket the newest batch
up to a committed one: it sees the state after that batch in all buckets, whatever the running batch has written. A task
that runs twice replaces the file of its batch by an equal state.

The files are not synced. A query that starts deletes them and writes them from Spark's state (`seed_copies`).
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.operators.state.inspect import BUCKET_COLUMN, read_runs, rows_of_runs, state_operators
from headrace.operators.state.manifest import Manifest
from headrace.operators.state.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RUN = ".arrow"
_BATCH = ".json"
READ_TRIES = 5
"""A file may be deleted while it is opened, if two batches were committed meanwhile."""


class CopyChanged(HeadraceError):
    """A file of a copy was deleted, because newer batches were committed. Read the copy again."""


class Content(Struct, frozen=True, kw_only=True):
    """The rows of a bucket after a batch, as the file of the batch describes them."""

    runs: tuple[str, ...]
    """The names of the runs, oldest first."""
    expired_us: int | None = None
    """The watermark until which their rows have expired; None if rows are deleted instead."""


class CopiedBucket(Struct, frozen=True, kw_only=True):
    """A bucket of an operator after a batch. Its runs are open: newer batches do not change it."""

    number: int
    content: Content
    runs: tuple[Run, ...]

    def rows(self) -> pa.Table | None:
        """The rows in the columns of the step; None if there are none."""
        return rows_of_runs(self.runs, self.number, expired_us=self.content.expired_us)


def keep_copy(
    folder: Path,
    *,
    owner: str,
    bucket: int,
    batch_id: int,
    runs: Sequence[Run],
    expired_us: int | None = None,
) -> None:
    """Write the runs of a bucket after a batch, and delete what no committed batch needs any more."""
    own = folder / owner / str(bucket)
    own.mkdir(parents=True, exist_ok=True)
    there = set(os.listdir(own))
    for run in runs:
        if run.name + _RUN not in there:
            _write(own / (run.name + _RUN), lambda stream, run=run: _write_rows(stream, run.rows))
    content = Content(runs=tuple(run.name for run in runs), expired_us=expired_us)
    _write(own / f"{batch_id}{_BATCH}", lambda stream: stream.write(msgspec.json.encode(content)))
    _delete_old(own, batch_id, set(content.runs))


def _delete_old(own: Path, batch_id: int, names: set[str]) -> None:
    """Only the newest of the earlier batches may be the committed one."""
    earlier = sorted(number for number in _batches(own) if number < batch_id)
    if len(earlier) < 2:
        return
    kept = names.union(_content(own, earlier[-1]).runs)
    for number in earlier[:-1]:
        for name in set(_content(own, number).runs) - kept:
            (own / (name + _RUN)).unlink(missing_ok=True)
        (own / f"{number}{_BATCH}").unlink(missing_ok=True)


def open_copies(folder: Path, owner: str, batch_id: int) -> list[CopiedBucket]:
    """All buckets of an operator after this batch, in order. Buckets without rows are omitted."""
    numbers = sorted(int(each) for each in _listed(folder / owner))
    found = []
    for number in numbers:
        own = folder / owner / str(number)
        batches = [each for each in _batches(own) if each <= batch_id]
        if not batches:
            continue  # its first rows are in a batch that is not committed
        try:
            content = _content(own, max(batches))
            runs = tuple(_opened(own, name) for name in content.runs)
        except FileNotFoundError as error:
            raise CopyChanged(f"bucket {number} of `{owner}` has changed", hint="read it again") from error
        if runs:
            found.append(CopiedBucket(number=number, content=content, runs=runs))
    return found


def read_buckets(spark: SparkSession, checkpoint: str, owner: str, *, batch_id: int) -> list[CopiedBucket]:
    """The same from the state of the checkpoint, read by Spark: without a folder that driver and tasks share."""
    found: list[CopiedBucket] = []
    for operator in state_operators(spark, checkpoint):
        if operator.is_of_headrace:
            stored = read_runs(spark, checkpoint, operator.number, batch_id=batch_id).toArrow()
            numbers = stored.column(BUCKET_COLUMN)
            for number in sorted(numbers.unique().to_pylist()):
                manifest, runs = _decoded(stored.filter(pc.equal(numbers, number)))
                if manifest.owner == owner and runs:
                    content = Content(runs=tuple(run.name for run in runs), expired_us=manifest.expired_us)
                    found.append(CopiedBucket(number=number, content=content, runs=tuple(runs)))
    return found


def seed_copies(spark: SparkSession, checkpoint: str, folder: Path, *, batch_id: int | None) -> None:
    """Replace the copies by the state of the checkpoint after this batch, in Spark's tasks. None: there is no state."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    if batch_id is None:
        return
    for operator in state_operators(spark, checkpoint):
        if operator.is_of_headrace:
            runs = read_runs(spark, checkpoint, operator.number, batch_id=batch_id)
            runs.groupBy(BUCKET_COLUMN).applyInArrow(_seeder(str(folder), batch_id), "bucket int").collect()


def _seeder(folder: str, batch_id: int) -> Callable[[pa.Table], pa.Table]:
    def seed(stored: pa.Table) -> pa.Table:
        manifest, runs = _decoded(stored)
        bucket = stored.column(BUCKET_COLUMN)[0].as_py()
        keep_copy(
            Path(folder),
            owner=manifest.owner,
            bucket=bucket,
            batch_id=batch_id,
            runs=runs,
            expired_us=manifest.expired_us,
        )
        return pa.table({"bucket": pa.array([bucket], pa.int32())})

    return seed


def _decoded(stored: pa.Table) -> tuple[Manifest, list[Run]]:
    """The manifest and the runs of a bucket, from the rows of `read_runs`."""
    rows = stored.to_pylist()
    manifest = Manifest.from_json(rows[0]["manifest"])
    content = {row["name"]: row["content"] for row in rows}
    return manifest, [Run.decode(content[name], name=name) for name in manifest.runs]


def _opened(own: Path, name: str) -> Run:
    with pa.memory_map(str(own / (name + _RUN))) as mapped, pa.ipc.open_stream(mapped) as reader:
        return Run(reader.read_all().combine_chunks(), name=name)


def _write_rows(stream: object, rows: pa.Table) -> None:
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)


def _write(path: Path, write: Callable[..., object]) -> None:
    beside = path.with_name(f".{uuid.uuid4().hex}")
    with beside.open("wb") as stream:
        write(stream)
    beside.replace(path)


def _batches(own: Path) -> list[int]:
    return [int(each.removesuffix(_BATCH)) for each in _listed(own) if each.endswith(_BATCH)]


def _content(own: Path, batch_id: int) -> Content:
    return msgspec.json.decode((own / f"{batch_id}{_BATCH}").read_bytes(), type=Content)


def _listed(folder: Path) -> list[str]:
    try:
        return [each for each in os.listdir(folder) if not each.startswith(".")]
    except FileNotFoundError:
        return []
