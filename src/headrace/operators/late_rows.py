"""How tasks pass late rows to the job that writes them to their topic: in files, or with the results of the tasks.

A bucket writes the late rows of a batch to a file, in a folder that a local property of the query sets. The name of the
file consists of batch and bucket, so a retried task writes the same file. The job sets the folder, reads the files
after the sink has written, and writes the rows with the fence of the batch.

If the job and the tasks share no folder, the property names an accumulator of Spark. Its updates reach the driver with
the result of a task, before the sink has written. The same name identifies the rows of a retried task. Each row is
compressed, and all late rows of a batch are in the memory of the driver.
"""

from __future__ import annotations

import base64
import itertools
import json
import logging
import shutil
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.plan_names import LATE_ROWS_FOLDER, RECORD_COLUMNS
from headrace.sync import sync_file

if TYPE_CHECKING:
    from pyspark.accumulators import AccumulatorParam
    from pyspark.sql import Column, DataFrame

BATCH_PROPERTY = "streaming.sql.batchId"
_SUFFIX = ".arrow"
_TOPIC_OF_JOB = "+"
"""The folder of late rows for the dead-letter topic of the job. It is not a valid topic name."""

UTC_TIME = pa.timestamp("us", tz="UTC")
LATE_ROWS = pa.schema(
    [
        pa.field("window_start", UTC_TIME),
        pa.field("window_end", UTC_TIME),
        pa.field("watermark", UTC_TIME),
        pa.field("original", pa.string()),
        pa.field("reason", pa.string()),
    ]
)
"""One entry for each window for which a row was late. A row that an operator rejects has no window, and a reason.
`original` is the JSON of `original_row`."""

_Place = tuple[int, str, str]
"""Batch, topic and name."""

_ACCUMULATOR = "accumulator:"
_numbers = itertools.count(8_000_000)
"""Far above those that PySpark counts for a user's accumulators in this process."""

_log = logging.getLogger(__name__)

_ROW = "row"
_KEY_BASE64 = "_key_base64"
"""The field of the JSON for a binary `_key`."""


class LateRowsTo(Struct, frozen=True, kw_only=True):
    """The destination of an operator's late rows."""

    topic: str
    """Empty for the dead-letter topic of the job."""
    operator: str
    owner: str
    """Distinguishes operators of one query that write to the same topic; the same in every run."""
    is_required: bool = True
    """Whether a query without a folder fails. Otherwise it only logs these rows."""

    def require_folder(self) -> Path:
        """The folder of the batch, in a task. A query without one fails before any row is late."""
        folder = self._folder()
        if folder is None:
            raise HeadraceError(
                f"{self.operator}: late rows go to {f'topic {self.topic}' if self.topic else 'a topic'}, but only a "
                "Job writes them",
                hint="run the query as a Job, or keep late rows as files: "
                f'spark.sparkContext.setLocalProperty("{LATE_ROWS_FOLDER}", "/a/folder") before start()',
            )
        return folder

    def require_place(self) -> None:
        """In a task: fail before any row is late if nobody would write it."""
        if _accumulator_of_task() is None:
            self.require_folder()

    def _folder(self) -> Path | None:
        from pyspark import TaskContext

        context = TaskContext.get()
        folder = context.getLocalProperty(LATE_ROWS_FOLDER) if context else None
        batch = context.getLocalProperty(BATCH_PROPERTY) if context else None
        return Path(folder) / batch if folder and batch else None

    def write(self, rows: pa.Table, bucket: int) -> None:
        """Write the rows durably, in a task, before the batch can be committed."""
        number = _accumulator_of_task()
        if number is not None:
            self._pass(number, rows, bucket)
            return
        if not self.is_required and self._folder() is None:
            for reason in rows.column("reason").to_pylist():
                _log.warning("%s: %s", self.operator, reason)
            return
        folder = self.require_folder() / (self.topic or _TOPIC_OF_JOB)
        folder.mkdir(parents=True, exist_ok=True)
        beside = folder / f".{uuid.uuid4().hex}"
        with beside.open("wb") as stream:
            with pa.ipc.new_stream(stream, LATE_ROWS) as writer:
                writer.write_table(rows)
            stream.flush()
            sync_file(stream.fileno())
        beside.replace(folder / self._name(bucket))

    def _name(self, bucket: int) -> str:
        return f"{self.operator} {self.owner} {bucket}{_SUFFIX}"

    def _pass(self, number: int, rows: pa.Table, bucket: int) -> None:
        from pyspark import TaskContext
        from pyspark.accumulators import _accumulatorRegistry, _deserialize_accumulator

        context = TaskContext.get()
        assert context is not None
        batch_id = int(context.getLocalProperty(BATCH_PROPERTY) or 0)
        passed = _accumulatorRegistry.get(number)
        if passed is None:
            passed = _deserialize_accumulator(number, {}, _lots_param())
        content = pa.BufferOutputStream()
        with pa.ipc.new_stream(
            content, LATE_ROWS, options=pa.ipc.IpcWriteOptions(compression="zstd")
        ) as writer:
            writer.write_table(rows)
        place = batch_id, self.topic or _TOPIC_OF_JOB, self._name(bucket)
        passed.add({place: content.getvalue().to_pybytes()})


class LateRow(Struct, frozen=True, kw_only=True):
    """A row that was late for one window, or that was rejected with a reason."""

    window_start: datetime | None
    window_end: datetime | None
    watermark: datetime | None
    reason: str | None = None
    content: str
    """The columns of the row as JSON."""
    record: Mapping[str, Any]
    """The columns of `read_topic` that identify the record of the row."""

    @property
    def key(self) -> bytes | None:
        if self.record.get(_KEY_BASE64) is not None:
            return base64.b64decode(self.record[_KEY_BASE64])
        return None if self.record.get("_key") is None else str(self.record["_key"]).encode()

    @property
    def headers(self) -> Iterator[tuple[str, bytes | None]]:
        for header in self.record.get("_headers") or []:
            yield header["key"], None if header["value"] is None else base64.b64decode(header["value"])


class LateLot(Struct, frozen=True, kw_only=True):
    """The late rows of a batch that one bucket wrote."""

    topic: str
    """Empty for the dead-letter topic of the job."""
    operator: str
    content: Path | bytes

    def rows(self) -> Iterator[LateRow]:
        content = self.content if isinstance(self.content, bytes) else self.content.read_bytes()
        with pa.ipc.open_stream(content) as reader:
            entries = reader.read_all().to_pylist()
        for entry in entries:
            record = json.loads(entry.pop("original"))
            yield LateRow(**entry, content=record.pop(_ROW), record=record)


def late_lots(folder: Path, batch_id: int) -> list[LateLot]:
    """The files of a batch, in a stable order."""
    return [
        LateLot(
            topic="" if path.parent.name == _TOPIC_OF_JOB else path.parent.name,
            operator=path.name.split(" ")[0],
            content=path,
        )
        for path in sorted((folder / str(batch_id)).glob(f"*/*{_SUFFIX}"))
    ]


class PassedLots:
    """On the driver: the late rows that the tasks of one job pass with their results."""

    def __init__(self) -> None:
        from pyspark.accumulators import Accumulator

        number = next(_numbers)
        self.address = f"{_ACCUMULATOR}{number}"
        self._lots: Accumulator[dict[_Place, bytes]] = Accumulator(number, {}, _lots_param())

    def of_batch(self, batch_id: int) -> list[LateLot]:
        """The late rows of a batch, in a stable order."""
        return [
            LateLot(
                topic="" if topic == _TOPIC_OF_JOB else topic, operator=name.split(" ")[0], content=content
            )
            for (batch, topic, name), content in sorted(self._lots.value.items())
            if batch == batch_id
        ]

    def delete(self, batch_id: int) -> None:
        """Those of this batch, and of earlier ones."""
        for place in [place for place in self._lots.value if place[0] <= batch_id]:
            del self._lots.value[place]


def _lots_param() -> AccumulatorParam[dict[_Place, bytes]]:
    from pyspark.accumulators import AccumulatorParam

    class LotsParam(AccumulatorParam):  # type: ignore[type-arg]  # generic for type checkers only
        def zero(self, value: dict[_Place, bytes]) -> dict[_Place, bytes]:
            return {}

        def addInPlace(self, value1: dict[_Place, bytes], value2: dict[_Place, bytes]) -> dict[_Place, bytes]:
            value1.update(value2)
            return value1

    return LotsParam()


def _accumulator_of_task() -> int | None:
    from pyspark import TaskContext

    context = TaskContext.get()
    place = context.getLocalProperty(LATE_ROWS_FOLDER) if context else None
    return int(place.removeprefix(_ACCUMULATOR)) if place and place.startswith(_ACCUMULATOR) else None


def delete_lots(folder: Path, batch_id: int) -> None:
    shutil.rmtree(folder / str(batch_id), ignore_errors=True)


def original_row(rows: DataFrame) -> Column:
    """A row as JSON: its columns, and the columns that identify its record."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType

    options = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "false"}
    own = [name for name in rows.columns if not name.startswith("_")] or rows.columns
    origin = [
        F.col(name).alias(_KEY_BASE64 if isinstance(rows.schema[name].dataType, BinaryType) else name)
        for name in RECORD_COLUMNS
        if name in rows.columns
    ]
    row = F.to_json(F.struct(*(F.col(f"`{name}`") for name in own)), options)
    return F.to_json(F.struct(row.alias(_ROW), *origin), options)
