"""Rows by key in a database: SQLite in the data folder, or PostgreSQL.

The sink; `table_writer` and `table_staging` write its batches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.changes import (
    OFFSET,
    OP,
)
from headrace.pipeline.sinks.json_text import JSON_OPTIONS
from headrace.pipeline.sinks.sink import OutputMode, Sink, SinkWriter
from headrace.pipeline.sinks.table_schema import JSON_MARK, SUMMABLE, Column, Kind, columns_of
from headrace.pipeline.sinks.table_schema import is_nested as is_nested_in_spark
from headrace.pipeline.sinks.table_sqlite import EXACT_DIGITS, SqliteStore
from headrace.pipeline.sinks.table_stage import StageLayout
from headrace.pipeline.sinks.table_store import TableShape, TableStore
from headrace.pipeline.sinks.table_writer import TableWriter
from headrace.pipeline.spark.session import data_dir
from headrace.plan_names import FAILED_ROW
from headrace.redaction import redacted

VIEWS_FILE = "views.db"
"""The database, in the data folder, of tables that are given no other."""

DRIVER_ROWS_MAX = 100_000
"""Some tens of megabytes on the driver. On one machine, tasks take half as much CPU time again for the rows of a batch:
Spark brings the rows of a key together, and passes them to Python."""

TableMode = Literal["upsert", "append", "replace"]
Combine = Literal["sum", "min", "max"]
POSTGRES = re.compile(r"postgres(?:ql)?://")


@dataclass(frozen=True, slots=True)
class Table(Sink):
    """A table that each batch changes exactly once.

        Table("clicks_by_url", key=["url"])                                       # in <data_dir>/views.db
        Table("shop.orders", key="id", at="postgresql://shop@db.example/shop")
        Table("visits", key="user", merge={"visits": "sum", "last_at": "max"})    # the table is the state

    A missing table is created from the schema of the rows. Columns that are missing in the table are added; any other
    difference is an error.

    key        the primary key: one column or several
    mode       "upsert" (default with a key): a row replaces the row of its key, and `op` d or - deletes it;
               "append" (default without a key); "replace": each batch replaces all rows
    at         an address of PostgreSQL, or the path of a file of SQLite
    merge      columns that are combined with the existing row: "sum", "min" or "max"
    order_by   the column that orders the rows of a key within a batch; `_offset` by default, if the rows have it
    columns    the columns to store besides the key; by default all but `op` and those that begin with `_`
    driver_rows_max   PostgreSQL: the driver writes batches of at most as many input rows, Spark's tasks larger ones
    """

    name: str
    _: KW_ONLY
    key: str | Sequence[str] = ()
    mode: TableMode | None = None
    at: str | Path | None = field(default=None, repr=False)  # it may have a password in it
    merge: Mapping[str, Combine] = field(default_factory=dict)
    order_by: str | None = None
    columns: Sequence[str] = ()
    driver_rows_max: int = DRIVER_ROWS_MAX

    kind: ClassVar[str] = "table"

    def __post_init__(self) -> None:
        self.set_names("key")
        object.__setattr__(self, "mode", self.mode or ("upsert" if self.key else "append"))
        if not self.name:
            raise BadSink("a table needs a name", hint='Table("clicks_by_url", key=["url"])')
        self.check_choice("mode", TableMode)
        if self.mode == "upsert" and not self.key:
            raise BadSink(
                f"rows can't be upserted into {self.name} without a key",
                hint='name it: key=["id"]; or mode="append"',
            )
        self._check_merge()

    def _check_merge(self) -> None:
        if self.merge and self.mode != "upsert":
            raise BadSink(
                f"merge needs mode upsert, and {self.name} has {self.mode}", hint="set one of them only"
            )
        for name, how in self.merge.items():
            if how not in get_args(Combine) or name in self.key:
                raise BadSink(
                    f"column {name} can't be merged by {how!r}",
                    hint=f"choose one of {', '.join(get_args(Combine))}, for a column that is not in the key",
                )

    @property
    def is_postgres(self) -> bool:
        return self.at is not None and POSTGRES.match(str(self.at)) is not None

    @property
    def has_changes(self) -> bool:
        """Whether `op` is an order here, or a column like others."""
        return bool(self.key) and self.mode != "append"

    def target(self) -> str:
        if self.at is None:
            return f"table {self.name}"
        if not self.is_postgres:
            return f"table {self.name} in {redacted(str(self.at))}"
        from headrace.pipeline.sinks.postgres_client import place

        return f"table {self.name} in {place(str(self.at))}"

    def output_mode(self, *, aggregated: bool, watermarked: bool) -> OutputMode:
        if aggregated and self.mode == "replace":
            return "complete"
        if aggregated and not watermarked and "sum" in self.merge.values():
            raise BadSink(
                f"the rows for {self.name} are totals already, and would be added to the totals in the table",
                hint="do not set merge; or drop the aggregation, and let the table do it",
            )
        return "update" if aggregated and self.key and self.mode == "upsert" and not watermarked else "append"

    def prepare(self, rows: DataFrame) -> DataFrame:
        """The columns that are stored, and those that order the rows; structs, arrays and maps as JSON."""
        stored = [column.name for column in self._columns(rows.schema)]
        order = self.order_by or OFFSET
        needed = [
            name
            for name in (OP, order, FAILED_ROW)
            if name in rows.columns and self.has_changes and name not in stored
        ]
        kinds = {each.name: each.dataType for each in rows.schema.fields}
        chosen = []
        for name in [*stored, *needed]:
            column = F.col(f"`{name.replace('`', '``')}`")
            if is_nested_in_spark(kinds[name]):
                column = F.to_json(column, JSON_OPTIONS).alias(name, metadata={JSON_MARK: True})
            chosen.append(column)
        return rows.select(*chosen)

    def _columns(self, schema: StructType) -> list[Column]:
        keep = [*self.key, *self.merge]
        if not self.has_changes and OP in schema.names:
            keep.append(OP)
        self.check_columns((*keep, *self.columns, self.order_by), schema.names)
        if self.merge and OP in schema.names:
            raise BadSink(
                f"the rows for {self.name} have a column {OP}, and merged values can't be retracted",
                hint=f"drop {OP}, or do not set merge",
            )
        return columns_of(schema, keep=keep, only=self.columns)

    def open(self, job: str, schema: StructType) -> SinkWriter:
        assert self.mode is not None
        columns = self._columns(schema)
        for column in columns:
            self._check_mergeable(column)
        shape = TableShape(
            job=job,
            name=self.name,
            columns=tuple(columns),
            key=tuple(self.key),
            mode=self.mode,
            merge=self.merge,
        )
        if self.is_postgres:
            return self._open_postgres(shape, schema)
        store = self._sqlite(shape)
        _prepare(store)
        return TableWriter(store, shape, self.order_by)

    def _open_postgres(self, shape: TableShape, schema: StructType) -> SinkWriter:
        from headrace.pipeline.sinks.table_postgres import PostgresStore
        from headrace.pipeline.sinks.table_staging import StagingTableWriter

        layout = StageLayout.of(shape, schema, self.order_by)
        store = PostgresStore(str(self.at), shape)
        _prepare(store)
        return StagingTableWriter(store, shape, layout, self.order_by, driver_rows_max=self.driver_rows_max)

    def _check_mergeable(self, column: Column) -> None:
        how = self.merge.get(column.name)
        is_number = column.kind in SUMMABLE
        is_inexact = not self.is_postgres and column.kind is Kind.DECIMAL and column.precision > EXACT_DIGITS
        if (how == "sum" and not is_number) or (how is not None and is_inexact):
            raise BadSink(
                f"column {column.name} of type {column.kind.value} can't be merged by {how}",
                hint="SQLite keeps decimals of more than 15 digits as text: cast it, or use PostgreSQL"
                if is_inexact
                else "only numbers can be summed up",
            )

    def _sqlite(self, shape: TableShape) -> SqliteStore:
        if self.at is None:
            return SqliteStore(data_dir() / VIEWS_FILE, shape)
        if "://" in str(self.at):
            raise BadSink(
                f"tables can't be written to {str(self.at).split('://')[0]}://",
                hint="give postgresql://…, or the path of a file for SQLite",
            )
        return SqliteStore(Path(self.at), shape)


def _prepare(store: TableStore) -> None:
    try:
        store.prepare()
    except BaseException:
        store.close()
        raise
