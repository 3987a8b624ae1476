"""`Parquet`: a table of Parquet files in folders as Hive has them, which Spark, DuckDB, Hive and pandas read.

Plain files have no transactions. So each batch makes a new snapshot of the table, a folder with the fence in it, and
then moves the link that is the table's name. `parquet_layout.py` describes the folders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import changes
from headrace.pipeline.sinks.parquet_layout import (
    Description,
    check_partitions,
    newest_snapshot,
    read_description,
    read_schema,
    snapshots_folder,
)
from headrace.pipeline.sinks.parquet_snapshot import Partitions, Snapshot, taking_turns
from headrace.pipeline.sinks.sink import Reject, RejectedRow, Sink, SinkWriter, check_folder_name
from headrace.pipeline.spark.session import data_dir

KEEP_S = 600
"""How long older snapshots are kept, for readers that have opened one."""


@dataclass(frozen=True, slots=True)
class Parquet(Sink):
    """Rows by key; without one they are appended.

    Parquet("users", key="id", partition_by="city")     # data/parquet/users/city=Oslo/….parquet
    """

    name: str
    _: KW_ONLY
    key: str | Sequence[str] = ()
    partition_by: str | Sequence[str] = ()
    """Texts, integers, dates or booleans."""
    at: str | Path | None = None
    """The path of the table, a link to its newest snapshot; `parquet/NAME` in the data folder by default."""
    order_by: str | None = None
    """The column that orders the rows of a key within a batch: the row with the greatest value is written."""
    keep_s: int = KEEP_S
    """Seconds that a snapshot is kept after the next one."""

    kind: ClassVar[str] = "parquet"
    is_folder: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.set_names("key", "partition_by")
        check_folder_name("a table", self.name)
        if self.keep_s < 0:
            raise BadSink(f"keep_s={self.keep_s} can't be negative", hint="0 keeps the newest snapshot only")

    @property
    def path(self) -> Path:
        found = Path(self.at) if self.at is not None else data_dir() / "parquet" / self.name
        return found.absolute()

    def target(self) -> str:
        return f"parquet {self.name}"

    def open(self, job: str, schema: StructType) -> SinkWriter:
        arrow = to_arrow_schema(schema, timezone="UTC").remove_metadata()
        stored = pa.schema([arrow.field(name) for name in changes.stored_columns(arrow, keep=self.key)])
        self.check_columns((*self.key, *self.partition_by), stored.names)
        self.check_columns((self.order_by,), arrow.names)
        _check_types(stored)
        check_partitions(stored, self.partition_by)
        return _ParquetWriter(self, job, stored)


def _check_types(stored: pa.Schema) -> None:
    for column in stored:
        if pa.types.is_duration(column.type) or pa.types.is_null(column.type):
            raise BadSink(
                f"Parquet has no type for the column {column.name!r} of type {column.type}",
                hint="cast it, or drop it",
            )


class _ParquetWriter(SinkWriter):
    def __init__(self, sink: Parquet, job: str, stored: pa.Schema) -> None:
        self._sink = sink
        self._job = job
        self._table = sink.path
        self._folder = snapshots_folder(self._table)
        self._folder.mkdir(parents=True, exist_ok=True)
        with taking_turns(self._table):
            there = newest_snapshot(self._table)
            if there is None:
                empty = Description(key=tuple(sink.key), partition_by=tuple(sink.partition_by))
                Snapshot(self._folder, 0, stored, empty).publish(self._table)
            else:
                _check_table(sink, read_schema(there), stored, read_description(there))
                stored = read_schema(there)
        self._stored = stored

    def applied(self) -> Fence | None:
        return read_description(self._newest()).fences.get(self._job)

    def apply(self, rows: Iterable[pa.RecordBatch], fence: Fence, reject: Reject) -> int:
        with taking_turns(self._table):
            before = self._newest()
            description = read_description(before)
            applied = description.fences.get(self._job)
            if applied is not None and applied.covers(fence):
                return 0
            after = self._after(before, {**description.fences, self._job: fence})
            written, rejected = self._stage(rows, before, after)
            if rejected:
                reject(rejected)
            after.publish(self._table)
            after.delete_older(self._sink.keep_s)
            return written

    def clear(self) -> None:
        with taking_turns(self._table):
            before = self._newest()
            fences = dict(read_description(before).fences)
            fences.pop(self._job, None)
            self._after(before, fences).publish(self._table)

    def close(self) -> None:
        pass

    def _stage(
        self, rows: Iterable[pa.RecordBatch], before: Path, after: Snapshot
    ) -> tuple[int, list[RejectedRow]]:
        table = changes.table_of(rows)
        partitions = Partitions(before, after)
        if table is None:
            partitions.write()
            return 0, []
        table, rejected = changes.without_null_keys(table, self._sink.key)
        for name in self._sink.partition_by:
            if pa.types.is_string(table.schema.field(name).type):
                is_empty = pc.fill_null(pc.equal(table[name], ""), False)
                reason = f"{name} is empty, and can't be the name of a folder"
                table, found = changes.without_bad(table, is_empty, reason)
                rejected += found
        if self._sink.key:
            collapsed = changes.collapse(table, key=self._sink.key, order_by=self._sink.order_by)
            upserts, deletes = collapsed.upserts, collapsed.deletes
        else:
            upserts, deletes = table, table.select([]).slice(0, 0)
        partitions.change(upserts.select(self._stored.names).cast(self._stored), deletes)
        partitions.write()
        return int(upserts.num_rows + deletes.num_rows), rejected

    def _newest(self) -> Path:
        there = newest_snapshot(self._table)
        if there is None:
            raise BadSink(f"{self._table} was deleted while a job writes it", hint="start the job again")
        return there

    def _after(self, before: Path, fences: Mapping[str, Fence]) -> Snapshot:
        description = Description(
            key=tuple(self._sink.key), partition_by=tuple(self._sink.partition_by), fences=fences
        )
        return Snapshot(self._folder, int(before.name) + 1, self._stored, description)


def _check_table(sink: Parquet, there: pa.Schema, wanted: pa.Schema, description: Description) -> None:
    differences = [f"{field.name}: {field.type}" for field in wanted if field not in list(there)]
    differences += [f"{name} is missing in the rows" for name in there.names if name not in wanted.names]
    if description.key != tuple(sink.key):
        differences.append(f"its key is {', '.join(description.key) or 'none'}")
    if description.partition_by != tuple(sink.partition_by):
        differences.append(f"it is partitioned by {', '.join(description.partition_by) or 'nothing'}")
    if differences:
        raise BadSink(
            f"the table {sink.name} has other columns: {'; '.join(differences)}",
            hint="files can't change their columns; give the table another name, and build it from the start",
        )
