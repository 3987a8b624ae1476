"""The sinks as formats of Spark: `writeStream.format("headrace-table")` in plain Spark code and declarative pipelines.

    from headrace.pipeline import register_formats

    register_formats(spark)
    rows.writeStream.format("headrace-search").option("name", "articles").option("key", "id") \
        .option("checkpointLocation", "data/articles").start()

Tasks stage their rows as Arrow (`staged_rows.py`). Spark's commit of a batch, on the driver, applies them through the
same `SinkWriter` that jobs use, with a fence of the checkpoint's identity: the same batch again changes nothing.
"""

from __future__ import annotations

import importlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow
from msgspec import Struct
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from headrace.errors import HeadraceError
from headrace.pipeline.checkpoint import Checkpoint
from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.sink import RefusedRow, Sink
from headrace.pipeline.sinks.staged_rows import (
    StagedRows,
    batch_folder,
    discard,
    local_path,
    query_folder,
    read_staged,
    stage,
    sweep,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSED_SHOWN_MAX = 3
"""Rows in the message of an error; the batch is repeated with all of them."""

WORKER_PROFILES = "__python_accumulator__"
"""What Spark calls them among the observed metrics of a query."""

SPARKS_OWN = ("queryname",)
"""Options that Spark hands on although they are its own; declarative pipelines set them."""

READ_PARTITIONS_MAX = 200
"""Tasks that read a table of many small files; a task for every file would be mostly overhead."""


def register_formats(spark: SparkSession) -> None:
    """Make the formats known to a session. Once for each session; a declarative pipeline does it in its definitions."""
    for each in FORMATS:
        spark.dataSource.register(each)
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        _leave_out_worker_profiles(spark.client)


def _leave_out_worker_profiles(client: Any) -> None:
    """Spark 4.2's `spark-pipelines` ends a run that has completed with UNKNOWN_RESPONSE if Python workers took part.

    Each of them sends a profile, empty as a rule. The client has put it where it belongs by the time it hands it on
    to code that knows no such answer; so it goes no further.
    """
    answers = client._execute_and_fetch_as_iterator

    def without_profiles(*arguments: Any, **named: Any) -> Iterator[Any]:
        for answer in answers(*arguments, **named):
            if getattr(answer, "name", None) != WORKER_PROFILES:
                yield answer

    client._execute_and_fetch_as_iterator = without_profiles


class Written(Struct, frozen=True, kw_only=True):
    """What a writer needs of the options: the sink's own, and those of every format."""

    sink: Sink
    job: str | None
    checkpoint: str | None
    staging: str | None
    batch: str | None


class SinkFormat(DataSource):
    """A sink by its options. `path`, what Spark calls the argument of `start` and `save`, is the sink's place."""

    sink_module: ClassVar[str]
    sink_class: ClassVar[str]

    @classmethod
    def name(cls) -> str:
        return f"headrace-{cls.sink_class.lower()}"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return StreamWriter(self._written(), schema, is_complete=overwrite)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(self._written(), schema, is_overwrite=overwrite)

    def _written(self) -> Written:
        own = {name: str(text) for name, text in self.options.items()}
        common = {name: _take(own, name) for name in ("job", "checkpointlocation", "staging", "batch")}
        for name in SPARKS_OWN:
            _take(own, name)
        path = _take(own, "path")
        if path is not None and _take(own, "at") is None:
            own["at"] = path
        return Written(
            sink=self._sink(own),
            job=common["job"],
            checkpoint=common["checkpointlocation"],
            staging=common["staging"],
            batch=common["batch"],
        )

    @classmethod
    def _sink(cls, options: Mapping[str, str]) -> Sink:
        module = importlib.import_module(cls.sink_module)
        sink: Sink = getattr(module, cls.sink_class).from_options(options)
        return sink


def _take(options: dict[str, str], name: str) -> str | None:
    """An option whose name knows no case, taken out."""
    found = [option for option in options if option.lower() == name]
    return options.pop(found[0]) if found else None


class StreamWriter(DataSourceStreamArrowWriter):
    """Spark makes one for the tasks of a query, and one for every commit.

    It lets formats written in Python have the output modes append and complete, and not update.
    """

    def __init__(self, written: Written, schema: StructType, *, is_complete: bool) -> None:
        if written.checkpoint is None:
            raise BadSink(
                "the format needs to know the query's checkpoint",
                hint='give it as .option("checkpointLocation", …); a setting of the session is not seen here',
            )
        if is_complete and getattr(written.sink, "mode", "") != "replace":
            raise BadSink(
                f"{written.sink.target()} can't be replaced whole by every batch, as output mode complete does",
                hint='say .option("mode", "replace") where the sink has it; a Job can update rows by key instead',
            )
        self._written = written
        self._schema = schema
        self._folder = query_folder(written.checkpoint, written.staging)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return stage(iterator, self._folder)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        assert self._written.checkpoint is not None
        checkpoint = Checkpoint(local_path(self._written.checkpoint))
        job = self._written.job or f"spark-{checkpoint.identity()}"
        staged = _staged(messages)
        _apply(self._written.sink, self._schema, staged, checkpoint.fence(job, batchId))
        sweep(self._folder)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        discard(_staged(messages))


class BatchWriter(DataSourceArrowWriter):
    """`rows.write.format(…).save()`: one batch, which has no number unless the user names it with `batch`."""

    def __init__(self, written: Written, schema: StructType, *, is_overwrite: bool) -> None:
        self._written = written
        self._schema = schema
        self._is_overwrite = is_overwrite
        self._name = written.batch or str(uuid.uuid4())
        self._folder = batch_folder(written.staging)

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return stage(iterator, self._folder)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        staged = _staged(messages)
        fence = Fence(job=self._written.job or "spark-batch", checkpoint=self._name, batch_id=0)
        _apply(self._written.sink, self._schema, staged, fence, is_cleared_first=self._is_overwrite)
        discard(staged)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        discard(_staged(messages))


def _staged(messages: Iterable[WriterCommitMessage | None]) -> list[StagedRows]:
    return [each for each in messages if isinstance(each, StagedRows)]


def _apply(
    sink: Sink,
    schema: StructType,
    staged: Sequence[StagedRows],
    fence: Fence,
    *,
    is_cleared_first: bool = False,
) -> None:
    writer = sink.open(fence.job, schema)
    try:
        if is_cleared_first:
            writer.clear()
        writer.apply(read_staged(staged), fence, _refuse_nothing)
    finally:
        writer.close()


def _refuse_nothing(rows: Sequence[RefusedRow]) -> None:
    shown = "; ".join(
        f"{json.dumps(dict(each.row), default=str)}: {each.reason}" for each in rows[:REFUSED_SHOWN_MAX]
    )
    raise HeadraceError(
        f"{len(rows)} rows were refused, such as {shown}",
        hint="filter them out before, or run this as a Job of Headrace, which has dead letters",
    )


class TableFormat(SinkFormat):
    sink_module = "headrace.pipeline.sinks.table"
    sink_class = "Table"


class TopicFormat(SinkFormat):
    sink_module = "headrace.pipeline.sinks.topic"
    sink_class = "Topic"


class RedisFormat(SinkFormat):
    sink_module = "headrace.pipeline.sinks.redis"
    sink_class = "Redis"


class SearchFormat(SinkFormat):
    sink_module = "headrace.pipeline.sinks.search"
    sink_class = "Search"


class DeltaFormat(SinkFormat):
    """Can be read as well, so that Spark needs no further jars for a Delta table that Headrace writes."""

    sink_module = "headrace.pipeline.sinks.delta"
    sink_class = "Delta"

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(pyarrow.schema(self._delta().table().schema().to_arrow()))
        assert isinstance(schema, StructType)
        return schema

    def reader(self, schema: StructType) -> DeltaReader:
        table = self._delta().table()
        return DeltaReader(self._delta(), table.version(), len(table.file_uris()))

    def _delta(self) -> Any:
        return self._written().sink


class DeltaReader(DataSourceReader):
    """Reads the files of one version: what is written meanwhile does not show."""

    def __init__(self, delta: Any, version: int, files: int) -> None:
        self._delta = delta
        self._version = version
        self._parts = max(1, min(files, READ_PARTITIONS_MAX))

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._parts)]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow.dataset

        table = self._delta.table()
        table.load_as_version(self._version)
        whole = table.to_pyarrow_dataset()
        files = sorted(whole.get_fragments(), key=lambda each: each.path)[partition.value :: self._parts]
        if files:
            part = pyarrow.dataset.FileSystemDataset(files, whole.schema, whole.format, whole.filesystem)
            yield from part.to_batches()


FORMATS: tuple[type[SinkFormat], ...] = (TableFormat, TopicFormat, RedisFormat, SearchFormat, DeltaFormat)
