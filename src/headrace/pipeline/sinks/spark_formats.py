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
from typing import TYPE_CHECKING, Any

import pyarrow
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
from headrace.pipeline.sinks.sink import RejectedRow, Sink
from headrace.pipeline.sinks.staged_rows import (
    StagedRows,
    batch_folder,
    discard,
    query_folder,
    read_staged,
    shared_folder,
    stage,
    sweep,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REJECTED_SHOWN_MAX = 3
"""Rows in the message of an error; the batch is repeated with all of them."""

WORKER_PROFILES = "__python_accumulator__"
"""Their name among the observed metrics of a query."""

COMMON_OPTIONS = ("job", "checkpointlocation", "staging", "batch", "path", "queryname")
"""Of every format, in lower case, as Spark passes them. Declarative pipelines set `queryname`."""

READ_PARTITIONS_MAX = 200
"""Tasks that read a table of many small files; a task for every file would be mostly overhead."""


def register_formats(spark: SparkSession) -> None:
    """Register the formats, once for each session; a declarative pipeline does it in its definitions."""
    for each in FORMATS:
        spark.dataSource.register(each)
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        _drop_worker_profiles(spark.client)


def _drop_worker_profiles(client: Any) -> None:
    """Spark 4.2's `spark-pipelines` ends a run that has completed with UNKNOWN_RESPONSE if Python workers took part.

    Each of them sends a profile, which is usually empty. The client has already stored it when it passes it to code
    that does not know such a response; so it is dropped there.
    """
    responses = client._execute_and_fetch_as_iterator

    def without_profiles(*arguments: Any, **named: Any) -> Iterator[Any]:
        for response in responses(*arguments, **named):
            if getattr(response, "name", None) != WORKER_PROFILES:
                yield response

    client._execute_and_fetch_as_iterator = without_profiles


class SinkFormat(DataSource):
    """A sink by its options. `path`, the argument of `start` and `save`, is the field `at` of the sink."""

    @classmethod
    def name(cls) -> str:
        return f"headrace-{cls._sink_name().lower()}"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        return StreamWriter(*self._sink(), schema, is_complete=overwrite)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        return BatchWriter(*self._sink(), schema, is_overwrite=overwrite)

    @classmethod
    def _sink_name(cls) -> str:
        return cls.__name__.removesuffix("Format")

    def _sink(self) -> tuple[Sink, dict[str, str]]:
        """The sink, and the options that it does not have itself."""
        own = {name: str(text) for name, text in self.options.items()}
        common = {name: own.pop(name) for name in COMMON_OPTIONS if name in own}
        if "path" in common:
            own.setdefault("at", common["path"])
        name = self._sink_name()
        module = importlib.import_module(f"headrace.pipeline.sinks.{name.lower()}")
        sink: Sink = getattr(module, name).from_options(own)
        return sink, common


class StagingWriter:
    """Stages rows in tasks, and applies them on the driver."""

    def __init__(self, sink: Sink, schema: StructType, folder: str) -> None:
        self._sink = sink
        self._schema = schema
        self._folder = folder

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        return stage(iterator, self._folder)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:
        discard(_staged(messages))

    def _apply(
        self, messages: list[WriterCommitMessage | None], fence: Fence, *, is_cleared_first: bool = False
    ) -> None:
        writer = self._sink.open(fence.job, self._schema)
        try:
            if is_cleared_first:
                writer.clear()
            writer.apply(read_staged(_staged(messages)), fence, _reject_nothing)
        finally:
            writer.close()


class StreamWriter(StagingWriter, DataSourceStreamArrowWriter):
    """Spark creates one for the tasks of a query, and one for every commit.

    Formats written in Python can have the output modes append and complete, and not update.
    """

    def __init__(
        self, sink: Sink, options: Mapping[str, str], schema: StructType, *, is_complete: bool
    ) -> None:
        if "checkpointlocation" not in options:
            raise BadSink(
                "the format needs to know the query's checkpoint",
                hint='set .option("checkpointLocation", …); the format can\'t read a setting of the session',
            )
        if is_complete and getattr(sink, "mode", "") != "replace":
            raise BadSink(
                f"{sink.target()} can't replace all rows with every batch, as output mode complete does",
                hint='set .option("mode", "replace") if the sink has it; a Job can update rows by key instead',
            )
        self._checkpoint = options["checkpointlocation"]
        self._job = options.get("job")
        super().__init__(sink, schema, query_folder(self._checkpoint, options.get("staging")))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        checkpoint = Checkpoint(shared_folder(self._checkpoint))
        job = self._job or f"spark-{checkpoint.identity()}"
        self._apply(messages, checkpoint.fence(job, batchId))
        sweep(self._folder)


class BatchWriter(StagingWriter, DataSourceArrowWriter):
    """`rows.write.format(…).save()`: one batch, which has no number unless the user names it with `batch`."""

    def __init__(
        self, sink: Sink, options: Mapping[str, str], schema: StructType, *, is_overwrite: bool
    ) -> None:
        super().__init__(sink, schema, batch_folder(options.get("staging")))
        self._is_overwrite = is_overwrite
        self._fence = Fence(
            job=options.get("job", "spark-batch"),
            checkpoint=options.get("batch") or str(uuid.uuid4()),
            batch_id=0,
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._apply(messages, self._fence, is_cleared_first=self._is_overwrite)
        discard(_staged(messages))


def _staged(messages: Iterable[WriterCommitMessage | None]) -> list[StagedRows]:
    return [each for each in messages if isinstance(each, StagedRows)]


def _reject_nothing(rows: Sequence[RejectedRow]) -> None:
    shown = "; ".join(
        f"{json.dumps(dict(each.row), default=str)}: {each.reason}" for each in rows[:REJECTED_SHOWN_MAX]
    )
    raise HeadraceError(
        f"{len(rows)} rows were rejected, such as {shown}",
        hint="filter them out before, or run this as a Job of Headrace, which has dead letters",
    )


class TableFormat(SinkFormat):
    """`headrace-table`."""


class TopicFormat(SinkFormat):
    """`headrace-topic`."""


class RedisFormat(SinkFormat):
    """`headrace-redis`."""


class SearchFormat(SinkFormat):
    """`headrace-search`."""


class DeltaFormat(SinkFormat):
    """`headrace-delta`, which can be read as well: Spark needs no further jars for a table that Headrace writes."""

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(pyarrow.schema(self._delta().table().schema().to_arrow()))
        assert isinstance(schema, StructType)
        return schema

    def reader(self, schema: StructType) -> DeltaReader:
        table = self._delta().table()
        return DeltaReader(self._delta(), table.version(), len(table.file_uris()))

    def _delta(self) -> Any:
        return self._sink()[0]


class DeltaReader(DataSourceReader):
    """Reads the files of one version: later commits are not visible."""

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
