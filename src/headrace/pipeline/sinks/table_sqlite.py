"""The `Table` sink in SQLite: one file, one writer at a time, any number of readers, which are never blocked.

Python's own `sqlite3` and no other. ADBC's driver, which binds Arrow in C, took a third of the CPU time for this step;
but it brings a second copy of the SQLite library into the process. The two drop each other's file locks, and readers in
the same process use Python's.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.table_schema import Column, ExistingColumn, Kind, columns_to_add
from headrace.pipeline.sinks.table_store import FENCES, RowRefusal, TableShape, TableStore

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
    def __init__(self, path: Path, shape: TableShape) -> None:
        self._path = path
        self._shape = shape
        self._table = quoted(shape.name)
        self._connection = _connect(path)

    # The table

    def prepare(self) -> None:
        if "." in self._shape.name:
            raise BadSink(
                f"SQLite has no schemas, and table {self._shape.name} has a dot in its name",
                hint="name it without one",
            )
        with self.transaction():
            self._execute(
                f"CREATE TABLE IF NOT EXISTS {FENCES} (job TEXT, target TEXT, checkpoint TEXT, batch_id BIGINT, "
                "fence TEXT, written_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, PRIMARY KEY (job, target))"
            )
            existing = self._existing_columns()
            if existing:
                self._fit(existing)
            else:
                self._execute(self._create_statement())

    def _existing_columns(self) -> dict[str, ExistingColumn]:
        """By the names that the rows use: SQLite's know no case."""
        ours = {column.name.lower(): column.name for column in self._shape.columns}
        rows = self._execute("SELECT * FROM pragma_table_xinfo(?)", (self._shape.name,)).fetchall()
        return {
            ours.get(name.lower(), name): ExistingColumn(
                type=kind, is_optional=default is not None or hidden != 0 or _is_row_id(kind, key)
            )
            for _, name, kind, _, default, key, hidden in rows
        }

    def _fit(self, existing: dict[str, ExistingColumn]) -> None:
        shape = self._shape
        to_add = columns_to_add(
            shape.name, shape.columns, existing, key=shape.key, sql_type=sql_type, can_hold=can_hold
        )
        for column in to_add:
            self._execute(f"ALTER TABLE {self._table} ADD COLUMN {quoted(column.name)} {sql_type(column)}")
        if shape.key and shape.mode != "append" and not self._has_unique_key():
            raise BadSink(
                f"table {shape.name} has no primary key or unique index on {', '.join(shape.key)}",
                hint=f"CREATE UNIQUE INDEX ON it, or write to a table of another name ({self._path})",
            )

    def _has_unique_key(self) -> bool:
        key = {name.lower() for name in self._shape.key}
        name = self._shape.name
        primary = self._execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0", (name,))
        if {each.lower() for (each,) in primary} == key:
            return True
        unique = self._execute(
            'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial', (name,)
        ).fetchall()
        for (index,) in unique:
            indexed = self._execute("SELECT name FROM pragma_index_info(?)", (index,)).fetchall()
            if {str(each).lower() for (each,) in indexed} == key:
                return True
        return False

    def _create_statement(self) -> str:
        shape = self._shape
        lines = [f"{quoted(column.name)} {sql_type(column)}" for column in shape.columns]
        if not shape.key:
            return f"CREATE TABLE {self._table} ({', '.join(lines)})"
        # Rows live in the key's own tree: one look-up an upsert instead of two.
        lines.append(f"PRIMARY KEY ({_list(shape.key)})")
        return f"CREATE TABLE {self._table} ({', '.join(lines)}) WITHOUT ROWID"

    # A batch

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._errors():
            # At once: the fence that is read must still be the last one when the rows are written.
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def fence(self) -> Fence | None:
        with self._errors():
            row = self._execute(
                f"SELECT fence FROM {FENCES} WHERE job = ? AND target = ?",
                (self._shape.job, self._shape.name),
            ).fetchone()
        return None if row is None else Fence.from_json(row[0])

    def keep_fence(self, fence: Fence) -> None:
        self._execute(
            f"INSERT OR REPLACE INTO {FENCES} (job, target, checkpoint, batch_id, fence) VALUES (?, ?, ?, ?, ?)",
            (self._shape.job, self._shape.name, fence.checkpoint, fence.batch_id, fence.to_json()),
        )

    def remove_fence(self) -> None:
        self._execute(
            f"DELETE FROM {FENCES} WHERE job = ? AND target = ?", (self._shape.job, self._shape.name)
        )

    def remove_all(self) -> None:
        self._execute(f"DELETE FROM {self._table}")

    def remove(self, keys: pa.Table) -> Sequence[RowRefusal]:
        if not len(keys):
            return []
        matches = " AND ".join(f"{quoted(name)} = ?" for name in self._shape.key)
        return self._execute_each(f"DELETE FROM {self._table} WHERE {matches}", keys)

    def put(self, rows: pa.Table) -> Sequence[RowRefusal]:
        return self._execute_each(self._put_statement(rows.column_names), rows)

    def _execute_each(self, statement: str, rows: pa.Table) -> Sequence[RowRefusal]:
        """A statement that fails undoes itself and nothing else, so that the ones behind it can go on."""
        tuples = list(zip(*(_python_values(rows[name]) for name in rows.column_names), strict=True))
        refused: list[RowRefusal] = []
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
                refused.append(RowRefusal(position=failed, reason=f"{self._shape.name}: {error}"))
                begin = failed + 1
        return refused

    def _put_statement(self, names: Sequence[str]) -> str:
        shape = self._shape
        values = ", ".join("?" for _ in names)
        statement = f"INSERT INTO {self._table} ({_list(names)}) VALUES ({values})"
        if shape.mode == "append" or not shape.key:
            return statement
        others = [name for name in names if name not in shape.key]
        if not others:
            return f"{statement} ON CONFLICT ({_list(shape.key)}) DO NOTHING"
        changes = ", ".join(f"{quoted(name)} = {self._merged(name)}" for name in others)
        return f"{statement} ON CONFLICT ({_list(shape.key)}) DO UPDATE SET {changes}"

    def _merged(self, name: str) -> str:
        """What a row that is there gets in this column. A null adds nothing."""
        here, new = f"{self._table}.{quoted(name)}", f"excluded.{quoted(name)}"
        how = self._shape.merge.get(name)
        if how is None:
            return new
        column = self._shape.column(name)
        combined = f"{here} + {new}" if how == "sum" else f"{how}({here}, {new})"
        if how == "sum" and column.kind is Kind.DECIMAL:
            combined = f"round({combined}, {column.scale})"
        return f"coalesce({combined}, {here}, {new})"

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


def _connect(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Transactions are explicit. Spark calls from any of its threads, one at a time.
        connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA journal_mode = WAL")
        # A batch that Spark takes for written must be so after a power failure too.
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
        return "make room on the disk; nothing of this batch was written"
    return "check that the folder is there, writable and on a local disk"


def sql_type(column: Column) -> str:
    if column.kind is not Kind.DECIMAL:
        return _TYPES[column.kind]
    name = "DECIMAL" if column.precision <= EXACT_DIGITS else "DECIMAL TEXT"
    return f"{name}({column.precision},{column.scale})"


def can_hold(existing: str, column: Column) -> bool:
    """Whether a column of this declared type takes the values as they are. One without a type takes anything."""
    there, wanted = existing.upper(), sql_type(column)
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


def _is_row_id(kind: str, key: int) -> bool:
    return key == 1 and kind.upper() == "INTEGER"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _list(names: Sequence[str]) -> str:
    return ", ".join(quoted(name) for name in names)


def _python_values(values: pa.ChunkedArray) -> list[Any]:
    """What `sqlite3` binds, by the shortest way there."""
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
        # Through numpy the objects are made in one loop in C.
        return list(values.to_numpy().tolist())
    return list(values.to_pylist())
