"""What a database does for the `Table` sink: one transaction a batch, with the fence in it.

Here are the steps, their order and the SQL that SQLite and PostgreSQL have in common; `table_sqlite` and
`table_postgres` have the rest.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import pyarrow as pa
from msgspec import Struct

from headrace.pipeline.errors import BadSink
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.table_schema import Column, ExistingColumn, Kind, columns_to_add

FENCES = "headrace_fences"
"""The table, in the same database, with the fence of each job and table."""


class TableShape(Struct, frozen=True, kw_only=True):
    """The table as the sink declares it."""

    job: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    mode: str
    merge: Mapping[str, str]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def replaces_rows(self) -> bool:
        """Whether a row replaces the row of its key."""
        return bool(self.key) and self.mode != "append"


class RowRejection(Struct, frozen=True, kw_only=True):
    """A row that the database rejects: its position among the given rows, and the reason."""

    position: int
    reason: str


class TableStore(abc.ABC):
    """A connection to one table. Every step happens inside `transaction`."""

    placeholder: ClassVar[str]
    """For a value in a statement."""

    table_options: ClassVar[str] = ""
    """Of a new table with a key."""

    def __init__(self, shape: TableShape) -> None:
        self._shape = shape
        self._table = ".".join(quoted(part) for part in shape.name.split("."))

    # The table

    def prepare(self) -> None:
        """Create the table and the fences if they are missing, add columns, check the rest."""
        written_at = self.sql_type(Column(name="written_at", kind=Kind.TIMESTAMP))
        with self._preparation():
            self._execute(
                f"CREATE TABLE IF NOT EXISTS {FENCES} (job TEXT, target TEXT, checkpoint TEXT, batch_id BIGINT, "
                f"fence TEXT, written_at {written_at} DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (job, target))"
            )
            existing = self._existing_columns()
            if existing:
                self._alter(existing)
            else:
                self._create()

    def _create(self) -> None:
        lines = [self._definition(column) for column in self._shape.columns]
        if self._shape.key:
            lines.append(f"PRIMARY KEY ({listed(self._shape.key)})")
        options = self.table_options if self._shape.key else ""
        self._execute(f"CREATE TABLE {self._table} ({', '.join(lines)}){options}")

    def _alter(self, existing: Mapping[str, ExistingColumn]) -> None:
        shape = self._shape
        to_add = columns_to_add(
            shape.name, shape.columns, existing, key=shape.key, sql_type=self.sql_type, can_hold=self.can_hold
        )
        for column in to_add:
            self._execute(f"ALTER TABLE {self._table} ADD COLUMN {self._definition(column)}")
        if shape.replaces_rows and set(shape.key) not in map(set, self._unique_keys()):
            key = ", ".join(shape.key)
            raise BadSink(
                f"table {shape.name} has no primary key or unique index on {key}",
                hint=f"CREATE UNIQUE INDEX ON {shape.name} ({key}), or write to a table of another name",
            )

    def _definition(self, column: Column) -> str:
        return f"{quoted(column.name)} {self.sql_type(column)}"

    # The fence

    def fence(self) -> Fence | None:
        with self._errors():
            row = self._execute(f"SELECT fence FROM {FENCES}{self._is_own()}", self._owner()).fetchone()
        return None if row is None else Fence.from_json(row[0])

    def keep_fence(self, fence: Fence) -> None:
        values = (*self._owner(), fence.checkpoint, fence.batch_id, fence.to_json())
        self._execute(
            f"INSERT INTO {FENCES} (job, target, checkpoint, batch_id, fence) "
            f"VALUES ({', '.join(self.placeholder for _ in values)}) ON CONFLICT (job, target) DO UPDATE SET "
            "checkpoint = excluded.checkpoint, batch_id = excluded.batch_id, fence = excluded.fence, "
            "written_at = CURRENT_TIMESTAMP",
            values,
        )

    def delete_fence(self) -> None:
        self._execute(f"DELETE FROM {FENCES}{self._is_own()}", self._owner())

    def _is_own(self) -> str:
        return f" WHERE job = {self.placeholder} AND target = {self.placeholder}"

    def _owner(self) -> tuple[str, str]:
        return self._shape.job, self._shape.name

    # Rows

    def delete_all(self) -> None:
        """Not TRUNCATE: in PostgreSQL it would wait for every reader, and make every reader wait."""
        self._execute(f"DELETE FROM {self._table}")

    def _insert_statement(self, names: Sequence[str], rows: str) -> str:
        """Insert or upsert `rows`, which is a SELECT or VALUES of these columns."""
        statement = f"INSERT INTO {self._table} AS t ({listed(names)}) {rows}"
        if not self._shape.replaces_rows:
            return statement
        updates = [f"{quoted(name)} = {self._merged(name)}" for name in names if name not in self._shape.key]
        action = f"UPDATE SET {', '.join(updates)}" if updates else "NOTHING"
        return f"{statement} ON CONFLICT ({listed(self._shape.key)}) DO {action}"

    def _merged(self, name: str) -> str:
        """The new value of this column in an existing row. A null adds nothing."""
        old, new = f"t.{quoted(name)}", f"excluded.{quoted(name)}"
        how = self._shape.merge.get(name)
        if how is None:
            return new
        column = next(column for column in self._shape.columns if column.name == name)
        return f"coalesce({self._combined(column, how, old, new)}, {old}, {new})"

    # What each database does in its own way

    @abc.abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Turns the errors of the database into `SinkUnavailable` and `BadSink`."""

    @abc.abstractmethod
    def _execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """A cursor with the result."""

    @abc.abstractmethod
    def _preparation(self) -> AbstractContextManager[None]:
        """The transaction of `prepare`."""

    @abc.abstractmethod
    def _existing_columns(self) -> dict[str, ExistingColumn]: ...

    @abc.abstractmethod
    def _unique_keys(self) -> Iterable[Iterable[str]]:
        """The columns of each primary key and unique index of the table."""

    @abc.abstractmethod
    def _combined(self, column: Column, how: str, old: str, new: str) -> str:
        """The sum, minimum or maximum of two values, in SQL."""

    @staticmethod
    @abc.abstractmethod
    def sql_type(column: Column) -> str: ...

    @staticmethod
    @abc.abstractmethod
    def can_hold(existing: str, column: Column) -> bool:
        """Whether a column of an existing type takes the values of this column."""

    @abc.abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """One that only this job's writers wait for. If it fails, the table is unchanged."""

    @abc.abstractmethod
    def delete(self, keys: pa.Table) -> Sequence[RowRejection]:
        """Delete the rows of these keys, except those that are returned."""

    @abc.abstractmethod
    def put(self, rows: pa.Table) -> Sequence[RowRejection]:
        """Insert or upsert the rows, depending on the shape, except those that are returned."""

    @abc.abstractmethod
    def close(self) -> None: ...


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    return ", ".join(quoted(name) for name in names)
