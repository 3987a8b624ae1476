"""A database to write a table to, and to look into."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructType, _parse_datatype_json_string

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.sink import RejectedRow, SinkWriter
from headrace.pipeline.sinks.table import Table


class Database(ABC):
    at: str
    options: Mapping[str, Any] = {}
    """Of every sink in it."""

    @abstractmethod
    def query(self, statement: str) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def execute(self, *statements: str) -> None: ...

    def has_others(self) -> bool:
        """Whether there are other clients: a server continues for a moment after its client was killed."""
        return False


class Sqlite(Database):
    def __init__(self, path: Path) -> None:
        self.at = str(path)

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.at)) as connection:
            return connection.execute(statement).fetchall()

    def execute(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.at)) as connection, connection:
            for statement in statements:
                connection.execute(statement)


class Postgres(Database):
    def __init__(self, address: str, **options: Any) -> None:
        self.at = address
        self.options = options

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.at) as connection:
            return connection.execute(statement.encode()).fetchall()

    def execute(self, *statements: str) -> None:
        with psycopg.connect(self.at) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def has_others(self) -> bool:
        clients = (
            "datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return self.query(f"SELECT count(*) FROM pg_stat_activity WHERE {clients}") != [(0,)]


def schema_of(**kinds: str) -> StructType:
    """`schema_of(id="string", n="long")`; without Spark's JVM, which parses DDL."""
    schema = StructType()
    for name, kind in kinds.items():
        schema = schema.add(name, _type(kind))
    return schema


def _type(kind: str) -> DataType:
    return _parse_datatype_json_string(f'"{kind}"')


class Batches:
    """Batches, one after the other, into one table."""

    def __init__(
        self, sink: Table, schema: StructType, *, job: str = "job", rows_per_chunk: int | None = None
    ) -> None:
        self.schema = schema
        self.job = job
        self._rows_per_chunk = rows_per_chunk
        self.writer: SinkWriter = sink.open(job, schema)
        self.rejected: list[RejectedRow] = []
        done = self.writer.applied()
        self.batch_id = -1 if done is None else done.batch_id

    def write(self, *rows: Sequence[Any]) -> int:
        self.batch_id += 1
        return self.write_again(*rows)

    def write_again(self, *rows: Sequence[Any]) -> int:
        names = self.schema.names
        table = pa.Table.from_pylist(
            [dict(zip(names, row, strict=True)) for row in rows], to_arrow_schema(self.schema, timezone="UTC")
        )
        return self.writer.apply(table.to_batches(self._rows_per_chunk), self.fence(), self.rejected.extend)

    def fence(self) -> Fence:
        return Fence(job=self.job, checkpoint="c", batch_id=self.batch_id)

    def close(self) -> None:
        self.writer.close()
