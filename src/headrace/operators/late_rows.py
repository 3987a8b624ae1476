"""Late rows that are to be kept: whole, on their way from a bucket to whoever writes them to their topic.

A bucket leaves those of a batch in a file, in a folder that the query was told of. The file's name is made of the batch
and the bucket, so that a task that runs twice leaves the same file, and what comes behind the operator (a filter, a
join, a sink that reads twice) makes no difference. A `Job` tells its query the folder, reads the files when the sink
has written, and writes the rows with the batch's fence.
"""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.plan_names import KEY_BASE64, LATE_ROWS_FOLDER, RECORD_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_BATCH_PROPERTY = "streaming.sql.batchId"
_SUFFIX = ".arrow"
_TOPIC_OF_JOB = "+"
"""The folder of late rows for the dead-letter topic of the job; no topic can have this name."""

UTC_TIME = pa.timestamp("us", tz="UTC")
LATE_ROWS = pa.schema(
    [
        pa.field("window_start", UTC_TIME),
        pa.field("window_end", UTC_TIME),
        pa.field("watermark", UTC_TIME),
        pa.field("original", pa.string()),
    ]
)
"""A row for each window that a row came too late for; `original` is what `original_row` makes."""


class LateRowsTo(Struct, frozen=True, kw_only=True):
    """Where an operator's late rows go."""

    topic: str
    """Empty for the dead-letter topic of the job."""
    operator: str
    owner: str
    """Tells operators of one query apart that write to the same topic; the same in every run."""

    def require_folder(self) -> Path:
        """In a task: the folder of the batch. Asked for before any row is late, so that no query begins without."""
        from pyspark import TaskContext

        context = TaskContext.get()
        folder = context.getLocalProperty(LATE_ROWS_FOLDER) if context else None
        batch = context.getLocalProperty(_BATCH_PROPERTY) if context else None
        if not folder or not batch:
            raise HeadraceError(
                f"{self.operator}: late rows go to {f'topic {self.topic}' if self.topic else 'a topic'}, and only a "
                "Job writes them",
                hint="run it as a Job; or leave them as files: "
                f'spark.sparkContext.setLocalProperty("{LATE_ROWS_FOLDER}", "/a/folder") before start()',
            )
        return Path(folder) / batch

    def leave(self, rows: pa.Table, bucket: int) -> None:
        """In a task: on disk before the batch can be committed."""
        folder = self.require_folder() / (self.topic or _TOPIC_OF_JOB)
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f".{uuid.uuid4().hex}"
        with beside.open("wb") as stream:
            with pa.ipc.new_stream(stream, LATE_ROWS) as writer:
                writer.write_table(rows)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(folder / f"{self.operator} {self.owner} {bucket}{_SUFFIX}")


class LateLot(Struct, frozen=True, kw_only=True):
    """The late rows of a batch that one bucket left."""

    topic: str
    operator: str
    path: Path

    def rows(self) -> pa.Table:
        with pa.ipc.open_stream(self.path.read_bytes()) as reader:
            return reader.read_all()


def late_lots(folder: Path, batch_id: int) -> list[LateLot]:
    """What a batch has left, always in the same order."""
    return [
        LateLot(
            topic="" if path.parent.name == _TOPIC_OF_JOB else path.parent.name,
            operator=path.name.split(" ")[0],
            path=path,
        )
        for path in sorted((folder / str(batch_id)).glob(f"*/*{_SUFFIX}"))
    ]


def forget_lots(folder: Path, batch_id: int) -> None:
    shutil.rmtree(folder / str(batch_id), ignore_errors=True)


def original_row(rows: DataFrame) -> Column:
    """A row as text: its own columns as JSON, within them where it came from."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType

    options = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
    own = [name for name in rows.columns if not name.startswith("_")] or rows.columns
    origin = [
        F.col(name).alias(KEY_BASE64 if isinstance(rows.schema[name].dataType, BinaryType) else name)
        for name in RECORD_COLUMNS
        if name in rows.columns
    ]
    row = F.to_json(F.struct(*(F.col(f"`{name}`") for name in own)), options)
    return F.to_json(F.struct(row.alias("row"), *origin), options)
