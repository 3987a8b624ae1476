"""The `Table` sink in SQLite: one file, one writer at a time, any number of readers, which are never blocked.

Python's own `sqlite3` and no other. ADBC's driver, which binds Arrow in C, took a third of the CPU time for this step;
but it brings a second copy of the SQLite library into the process. The two drop each other's file locks, and readers in
the same process use Python's.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks.table_schema import Column, ExistingColumn, Kind
from headrace.pipeline.sinks.table_store import RowRejection, TableShape, TableStore, quoted

BUSY_TIMEOUT_S = 60.0
"""Jobs that share a file take turns, and a batch of a million rows may keep it for some seconds."""

WAL_BYTES_MAX = 64 * 1024 * 1024
"""What the write-ahead log is cut to when its pages are in the database: one big batch must not keep the disk."""

EXACT_DIGITS = 15
"""A decimal up to this many digits is stored as SQLite's number, which is a double; a longer one is stored as text."""

_TYPES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.TINYINT: "TINYINT",
    Kind.SMALLINT: "SMALLINT",
    Kind.INTEGER: "INTEGER",
    Kind.BIGINT: "BIGINT",
    Kind.FLOAT: "REAL",
    Kind.DOUBLE: "DOUBLE",
    Kind.TEXT: "TEXT",
    Kind.BINARY: "BLOB",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.TIMESTAMP_NTZ: "TIMESTAMP_NTZ",
    Kind.DURATION: "BIGINT",  # microseconds
    Kind.JSON: "JSON TEXT",
}


class SqliteStore(TableStore):
    placeholder = "?"
    # Rows are in the tree of the key: one look-up for an upsert instead of two.
    table_options = " WITHOUT ROWID"

    def __init__(self, path: Path, shape: TableShape) -> None:
        super().__init__(shape)
        self._path = path
        self._connection = _connect(path)

    # The table

    def prepare(self) -> None:
        if "." in self._shape.name:
            raise BadSink(
                f"SQLite has no schemas, and table {self._shape.name} has a dot in its name",
                hint="name it without one",
            )
        super().prepare()

    def _preparation(self) -> AbstractContextManager[None]:
        return self.transaction()

    def _existing_columns(self) -> dict[str, ExistingColumn]:
        rows = self._execute("SELECT * FROM pragma_table_xinfo(?)", (self._shape.name,)).fetchall()
        return {
            self._name_in_rows(name): ExistingColumn(
                type=kind, is_optional=default is not None or hidden != 0 or _is_row_id(kind, key)
            )
            for _, name, kind, _, default, key, hidden in rows
        }

    def _name_in_rows(self, name: str) -> str:
        """The names of columns are case-insensitive in SQLite, and case-sensitive in Arrow."""
        return next((each for each in self._shape.names if each.lower() == name.lower()), name)

    def _unique_keys(self) -> Iterator[list[str]]:
        table = (self._shape.name,)
        primary = self._execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0", table)
        yield [self._name_in_rows(name) for (name,) in primary]
        unique = 'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial'
        for index in self._execute(unique, table).fetchall():
            indexed = self._execute("SELECT name FROM pragma_index_info(?)", index)
            yield [self._name_in_rows(str(name)) for (name,) in indexed]

    # A batch

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._errors():
            # IMMEDIATE: no other writer may change the fence between reading it and writing the rows.
            self._execute("BEGIN IMMEDIATE")
            try:
                yield
                self._execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._execute("ROLLBACK")

    def delete(self, keys: pa.Table) -> Sequence[RowRejection]:
        matches = " AND ".join(f"{quoted(name)} = ?" for name in self._shape.key)
        return self._execute_each(f"DELETE FROM {self._table} WHERE {matches}", keys) if len(keys) else []

    def put(self, rows: pa.Table) -> Sequence[RowRejection]:
        values = ", ".join("?" for _ in rows.column_names)
        return self._execute_each(self._insert_statement(rows.column_names, f"VALUES ({values})"), rows)

    def _execute_each(self, statement: str, rows: pa.Table) -> Sequence[RowRejection]:
        """Only the statement that fails is undone, so that the next ones can follow."""
        tuples = list(zip(*(_python_values(rows[name]) for name in rows.column_names), strict=True))
        rejected: list[RowRejection] = []
        begin = 0
        while begin < len(tuples):
            remaining = iter(tuples[begin:]) if begin else iter(tuples)
            try:
                self._connection.executemany(statement, remaining)
                break
            except (sqlite3.IntegrityError, sqlite3.DataError) as error:
                if not self._connection.in_transaction:
                    raise  # a trigger may end the whole transaction
                failed = len(tuples) - 1 - sum(1 for _ in remaining)
                rejected.append(RowRejection(position=failed, reason=f"{self._shape.name}: {error}"))
                begin = failed + 1
        return rejected

    def _combined(self, column: Column, how: str, old: str, new: str) -> str:
        if how != "sum":
            return f"{how}({old}, {new})"
        return f"round({old} + {new}, {column.scale})" if column.kind is Kind.DECIMAL else f"{old} + {new}"

    def close(self) -> None:
        self._connection.close()

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise SinkUnavailable(
                f"SQLite can't write to {self._path}: {error}", hint=_hint(str(error))
            ) from error
        except sqlite3.DatabaseError as error:
            raise BadSink(
                f"{self._path}: {error}", hint="it may not be a database of SQLite, or be damaged"
            ) from error

    @staticmethod
    def sql_type(column: Column) -> str:
        if column.kind is not Kind.DECIMAL:
            return _TYPES[column.kind]
        name = "DECIMAL" if column.precision <= EXACT_DIGITS else "DECIMAL TEXT"
        return f"{name}({column.precision},{column.scale})"

    @staticmethod
    def can_hold(existing: str, column: Column) -> bool:
        """A column without a type takes anything."""
        there, wanted = existing.upper(), SqliteStore.sql_type(column)
        if there in {"", "ANY", wanted}:
            return True
        if column.kind is Kind.DECIMAL:
            return there in {"NUMERIC", "DECIMAL"} and column.precision <= EXACT_DIGITS
        if "INT" in wanted:
            return "INT" in there
        if column.kind in {Kind.FLOAT, Kind.DOUBLE}:
            return there in {"REAL", "FLOAT", "DOUBLE", "DOUBLE PRECISION"}
        is_plain_text = there.startswith(("TEXT", "VARCHAR", "CHAR", "NVARCHAR", "CLOB"))
        return column.kind in {Kind.TEXT, Kind.JSON} and is_plain_text


def _connect(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Transactions are explicit. Spark calls from any of its threads, one at a time.
        connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        # A batch that was committed to Spark must survive a power failure.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_MAX}")
        connection.execute("PRAGMA foreign_keys = ON")
    except (OSError, sqlite3.OperationalError) as error:
        raise SinkUnavailable(f"SQLite can't open {path}: {error}", hint=_hint(str(error))) from error
    except sqlite3.DatabaseError as error:
        raise BadSink(f"{path}: {error}", hint="name another file with at=") from error
    return connection


def _hint(message: str) -> str:
    if "locked" in message:
        return f"another program has held a transaction open for {BUSY_TIMEOUT_S:.0f} s; end it"
    if "full" in message:
        return "free space on the disk; nothing of this batch was written"
    return "check that the folder is there, writable and on a local disk"


def _is_row_id(kind: str, key: int) -> bool:
    return key == 1 and kind.upper() == "INTEGER"


def _python_values(values: pa.ChunkedArray) -> list[Any]:
    """The values that `sqlite3` binds."""
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pa.types.is_duration(kind):
        values = values.cast(pa.duration("us")).cast(pa.int64())
    elif pa.types.is_timestamp(kind):
        # Without its zone first: Arrow would look up what UTC is for every value.
        values = values.cast(pa.timestamp("us")).cast(pa.string())
        values = pc.binary_join_element_wise(values, "Z", "") if kind.tz else values
    elif pa.types.is_date(kind) or pa.types.is_decimal(kind):
        values = values.cast(pa.string())
    if pa.types.is_string(values.type) or (values.null_count == 0 and pa.types.is_primitive(values.type)):
        # numpy creates the objects in one loop in C.
        return list(values.to_numpy().tolist())
    return list(values.to_pylist())
