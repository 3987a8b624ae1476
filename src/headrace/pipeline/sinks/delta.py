"""`Delta`: a Delta table (delta-rs, no JVM) that Spark, DuckDB and everything else that reads Delta can read.

A batch is one commit of the table's log. The commit contains a Delta application transaction with the checkpoint and
the number of the batch: a batch that is repeated is recognised by it. The whole fence, with source offsets, is in the
description of the commit. Tasks write the files of a large batch (`delta_task.py`). Compaction runs beside the batches,
in `delta_upkeep.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import pyarrow
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.pipeline import points
from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import changes
from headrace.pipeline.sinks.delta_fences import (
    CLEARED,
    FENCES,
    application,
    describe,
    kept_fence,
    read_fences,
)
from headrace.pipeline.sinks.delta_files import DeltaFolder
from headrace.pipeline.sinks.delta_task import DeltaTaskPlan, files_of, write_part
from headrace.pipeline.sinks.delta_upkeep import DeltaUpkeep
from headrace.pipeline.sinks.driver_rows import DRIVER_ROWS_MAX, collect, collect_few
from headrace.pipeline.sinks.sink import OutputMode, Reject, RejectedRow, Sink, SinkWriter, check_folder_name
from headrace.pipeline.sinks.task_response import RESPONSE_COLUMNS, responses_of
from headrace.pipeline.spark.session import data_dir

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DeltaMode = Literal["append", "upsert", "replace"]

COMMIT_TRIES_MAX = 10
"""A commit can conflict with compaction or another writer; then it is retried on the newer table."""

CHECKED = ("delta.constraints.", "delta.columnMapping.", "delta.generatedColumns")
"""What the configuration of a table names if files alone are not enough."""

UNCHECKED_FEATURES = frozenset({"appendOnly", "timestampNtz", "v2Checkpoint"})

_IS_DELETED = "headrace_is_deleted"


@dataclass(frozen=True, slots=True)
class Delta(Sink):
    """Rows are appended; with a `key` they replace and delete; with `mode="replace"` each batch is the whole table."""

    name: str
    _: KW_ONLY
    key: str | Sequence[str] = ()
    mode: DeltaMode | None = None
    """`append`, `upsert` or `replace`; by default `upsert` if there is a key, and `append` if not."""
    at: str | Path | None = None
    """Folder or address (`s3://bucket/path`); `delta/NAME` in the data folder by default."""
    partition_by: str | Sequence[str] = ()
    order_by: str | None = None
    """The column that orders the rows of a key within a batch: the row with the greatest value is written."""
    compact_files: int = 32
    """The number of small files that starts a compaction. 0: never."""
    file_bytes: int = 128 * 1024 * 1024
    """The size of compacted files. Files of at least half this size are not compacted. 128 MiB suits most readers."""
    keep_hours: int = 7 * 24
    """How long files that are no longer part of the table are kept, for readers of older versions."""
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of delta-rs for an address, such as credentials."""
    driver_rows_max: int = DRIVER_ROWS_MAX
    """Batches of at most as many input rows are written by the driver. Tasks write the files of larger ones, unless the
    table has partitions or constraints, or rows replace others."""

    kind: ClassVar[str] = "delta"
    is_folder: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_names("key", "partition_by")
        if not self.mode:
            object.__setattr__(self, "mode", "upsert" if self.key else "append")
        self.check_choice("mode", DeltaMode)
        if (self.mode == "upsert") != bool(self.key):
            raise BadSink(
                f"mode={self.mode!r} does not go with key={list(self.key)}",
                hint="an upsert needs a key, and the other modes have no use for one",
            )
        check_folder_name("a table", self.name)
        if self.compact_files < 0 or self.file_bytes <= 0 or self.keep_hours < 0:
            raise BadSink("compact_files, file_bytes and keep_hours can't be negative", hint="0 files: never")

    @property
    def address(self) -> str:
        return str(self.at) if self.at is not None else str(data_dir() / "delta" / self.name)

    def target(self) -> str:
        return f"delta {self.name}"

    def output_mode(self, *, aggregated: bool, watermarked: bool) -> OutputMode:
        if self.mode == "replace" and aggregated:
            return "complete"
        return Sink.output_mode(self, aggregated=aggregated, watermarked=watermarked)

    def table(self) -> DeltaTable:
        """The table as it is now: `.to_pyarrow_dataset()`, `.file_uris()`, `.version()`, `.history()` and so on."""
        return DeltaTable(self.address, storage_options=dict(self.storage_options))

    def open(self, job: str, schema: StructType) -> SinkWriter:
        arrow = to_arrow_schema(schema, timezone="UTC")
        wanted = pyarrow.schema([arrow.field(name) for name in changes.stored_columns(arrow)])
        _check_types(wanted)
        self.check_columns((*self.key, *self.partition_by), wanted.names)
        self.check_columns((self.order_by,), arrow.names)
        return _DeltaWriter(self, job, _open_table(self, wanted))


def _check_types(wanted: pyarrow.Schema) -> None:
    for column in wanted:
        try:
            if pyarrow.types.is_null(column.type):
                raise TypeError("Delta has no type for a column of nulls only")
            Schema.from_arrow(pyarrow.schema([column]))
        except Exception as error:  # delta-rs raises nothing more special
            raise BadSink(
                f"a Delta table can't have the column {column.name!r} of type {column.type}",
                hint="cast it, or drop it",
            ) from error


def _open_table(sink: Delta, wanted: pyarrow.Schema) -> DeltaTable:
    """The table with these columns: created if it is missing, altered if columns are new."""
    options = dict(sink.storage_options)
    if not DeltaTable.is_deltatable(sink.address, options):
        if "://" not in sink.address:
            Path(sink.address).mkdir(parents=True, exist_ok=True)
        return DeltaTable.create(
            sink.address,
            wanted,
            mode="ignore",
            partition_by=list(sink.partition_by),
            name=sink.name,
            storage_options=options,
        )
    table = sink.table()
    there = table.metadata().partition_columns
    if list(there) != list(sink.partition_by):
        raise BadSink(
            f"the table {sink.name} is partitioned by {', '.join(there) or 'nothing'}",
            hint="set partition_by to the same columns, or give the table another name",
        )
    _add_columns(sink, table, wanted)
    return table


def _add_columns(sink: Delta, table: DeltaTable, wanted: pyarrow.Schema) -> None:
    before = {each.name: each for each in table.schema().fields}
    after = {each.name: each for each in Schema.from_arrow(wanted).fields}
    changed = [
        f"{name}: {before[name].type} -> {after[name].type}"
        for name in before.keys() & after.keys()
        if before[name].type != after[name].type
    ]
    changed += [f"{name} is missing in the rows" for name in before.keys() - after.keys()]
    if changed:
        raise BadSink(
            f"the table {sink.name} has other columns: {'; '.join(sorted(changed))}",
            hint="only new columns can be added; give the table another name, or cast them back",
        )
    new = [after[name] for name in wanted.names if name not in before]
    if new:
        table.alter.add_columns(new)


class _DeltaWriter(SinkWriter):
    def __init__(self, sink: Delta, job: str, table: DeltaTable) -> None:
        self._sink = sink
        self._job = job
        self._table = table
        newest = next(iter(table.history(1)), {})
        # Of all jobs: every commit repeats them.
        self._fences = read_fences(newest.get(FENCES, "{}"))
        self._upkeep = DeltaUpkeep(
            open_table=sink.table,
            describe=lambda: describe(self._fences),
            files_max=sink.compact_files,
            file_bytes=sink.file_bytes,
            keep_hours=sink.keep_hours,
        )

    def applied(self) -> Fence | None:
        self._table.update_incremental()
        return kept_fence(self._table, self._job)

    def _has(self, fence: Fence) -> bool:
        number = self._table.transaction_version(application(fence))
        return number is not None and number >= fence.batch_id

    def apply(self, rows: Iterable[pyarrow.RecordBatch], fence: Fence, reject: Reject) -> int:
        rejections: list[RejectedRow] = []
        table = changes.table_of(rows)
        if table is not None:
            table, rejections = changes.without_null_keys(table, self._sink.key)
        return self._commit_once(lambda: self._commit(table, fence), fence, rejections, reject)

    def write(self, batch: DataFrame, fence: Fence, reject: Reject) -> int:
        if not self._is_written_by_tasks():
            return super().write(batch, fence, reject)
        few = collect_few(batch, fence, self._sink.driver_rows_max)
        if few is not None:
            return self.apply_collected(few, fence, reject)
        self._table.update_incremental()
        if self._has(fence):
            return 0
        sink = self._sink
        plan = DeltaTaskPlan(
            name=sink.name,
            folder=DeltaFolder(address=sink.address, storage_options=dict(sink.storage_options)),
            schema=pyarrow.schema(self._table.schema().to_arrow()).serialize().to_pybytes(),
            file_bytes=sink.file_bytes,
        )
        responses = responses_of(collect(batch.mapInArrow(partial(write_part, plan), RESPONSE_COLUMNS)))
        points.reached("after-stage", job=fence.job)
        rejections = [row for response in responses for row in response.rejected_rows()]
        files = files_of(responses)
        written = sum(response.written for response in responses)

        def commit() -> int:
            self._table.create_write_transaction(
                [file.action() for file in files],
                "overwrite" if sink.mode == "replace" else "append",
                self._table.schema(),
                commit_properties=self._properties(fence),
            )
            self._table.update_incremental()
            return written

        return self._commit_once(commit, fence, rejections, reject)

    def _is_written_by_tasks(self) -> bool:
        """Not if rows must be merged, placed by their partition, or checked by delta-rs."""
        if self._sink.mode == "upsert" or self._sink.partition_by:
            return False
        features = self._table.protocol().writer_features or []
        checked = [name for name in self._table.metadata().configuration if name.startswith(CHECKED)]
        return not checked and set(features) <= UNCHECKED_FEATURES

    def _properties(self, fence: Fence) -> CommitProperties:
        return CommitProperties(
            custom_metadata=describe({**self._fences, self._job: fence}),
            app_transactions=[Transaction(application(fence), fence.batch_id)],
        )

    def _commit_once(
        self, commit: Callable[[], int], fence: Fence, rejections: list[RejectedRow], reject: Reject
    ) -> int:
        for _ in range(COMMIT_TRIES_MAX):
            self._table.update_incremental()
            if self._has(fence):
                return 0
            if rejections:
                reject(rejections)
                rejections = []
            try:
                written = commit()
            except CommitFailedError:
                continue
            self._fences[self._job] = fence
            self._upkeep.after_batch(self._table)
            return written
        raise SinkUnavailable(
            f"the table {self._sink.name} was changed by others {COMMIT_TRIES_MAX} times while a batch was written",
            hint="several writers of one table should append, or keep to partitions of their own",
        )

    def _commit(self, table: pyarrow.Table | None, fence: Fence) -> int:
        properties = self._properties(fence)
        if table is None or table.num_rows == 0:
            stored = pyarrow.schema(self._table.schema().to_arrow()).empty_table()
        elif self._sink.mode == "upsert":
            collapsed = changes.collapse(table, key=self._sink.key, order_by=self._sink.order_by)
            return self._merge(collapsed, properties)
        else:
            stored = table.select(changes.stored_columns(table.schema))
        write_deltalake(
            self._table,
            stored,
            mode="overwrite" if self._sink.mode == "replace" else "append",
            partition_by=list(self._sink.partition_by) or None,
            target_file_size=self._sink.file_bytes,
            commit_properties=properties,
        )
        return int(stored.num_rows)

    def _merge(self, collapsed: changes.Changes, properties: CommitProperties) -> int:
        """Upserts and deletions in one commit, so in one source: a deletion is a row of nulls beside its key."""
        marked = [
            rows.append_column(_IS_DELETED, pyarrow.repeat(is_deleted, rows.num_rows))
            for rows, is_deleted in ((collapsed.upserts, False), (collapsed.deletes, True))
        ]
        source = pyarrow.concat_tables(marked, promote_options="default")
        updates = {_quoted(name): f"s.{_quoted(name)}" for name in collapsed.upserts.column_names}
        (
            self._table.merge(
                source,
                predicate=" AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in self._sink.key),
                source_alias="s",
                target_alias="t",
                commit_properties=properties,
            )
            .when_matched_delete(predicate=f"s.{_IS_DELETED}")
            .when_matched_update(updates=updates)
            .when_not_matched_insert(updates=updates, predicate=f"NOT s.{_IS_DELETED}")
            .execute()
        )
        return int(source.num_rows)

    def clear(self) -> None:
        self._table.update_incremental()
        cleared = kept_fence(self._table, self._job)
        self._fences.pop(self._job, None)
        transactions = [] if cleared is None else [Transaction(application(cleared), CLEARED)]
        self._table.delete(
            commit_properties=CommitProperties(
                custom_metadata=describe(self._fences), app_transactions=transactions
            )
        )

    def close(self) -> None:
        self._upkeep.close()


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
