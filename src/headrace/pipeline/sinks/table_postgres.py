"""The `Table` sink in PostgreSQL: a batch goes by COPY into a temporary table, and from there in one statement.

The temporary table is created once a connection, with the types of the target, and empties itself at every commit. Rows
go as CSV, which Arrow writes and every type of the target can read. ADBC's binary COPY, which must match the types
exactly, saved about a tenth of a batch's CPU time, most of which is the server's merge.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks.table_schema import Column, ExistingColumn, Kind
from headrace.pipeline.sinks.table_store import RowRejection, TableShape, TableStore, listed, quoted
from headrace.redaction import ESCAPE_HINT

CONNECT_TIMEOUT_S = 10
"""A server that does not respond by then is unavailable; the job restarts."""

COPY_ROWS = 65_536
"""Rows that are turned into text at a time: some megabytes, whatever the batch."""

REJECTIONS_MAX = 1_000
"""Finding one rejected row takes about twenty attempts. If more rows are rejected, the table does not fit the rows."""

REJECTED_STATES = re.compile("22...|23...|44000|54000|P0001")
"""Errors that one row's values cause: data, constraints, a view's check, a long index entry, a trigger."""

RETRYABLE_STATES = re.compile("08...|40...|53...|55P03|57...|58...")
"""Errors that pass: connections, deadlocks, resources, locks, shutdown, the server's disk."""

_STAGE, _STAGED_KEYS = "headrace_stage", "headrace_stage_keys"

_TYPES = {
    Kind.BOOLEAN: "boolean",
    Kind.TINYINT: "smallint",
    Kind.SMALLINT: "smallint",
    Kind.INTEGER: "integer",
    Kind.BIGINT: "bigint",
    Kind.FLOAT: "real",
    Kind.DOUBLE: "double precision",
    Kind.TEXT: "text",
    Kind.BINARY: "bytea",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp with time zone",
    Kind.TIMESTAMP_NTZ: "timestamp without time zone",
    Kind.DURATION: "interval",
    Kind.JSON: "jsonb",
}
_ALSO_HOLDS = {
    Kind.TINYINT: ("integer", "bigint", "numeric"),
    Kind.SMALLINT: ("integer", "bigint", "numeric"),
    Kind.INTEGER: ("bigint", "numeric"),
    Kind.BIGINT: ("numeric",),
    Kind.FLOAT: ("double precision", "numeric"),
    Kind.DOUBLE: ("numeric",),
    Kind.DECIMAL: ("numeric",),
    Kind.JSON: ("json", "text"),
}
# Text is read by the type's own parser, which rejects single rows.
_NEVER_TEXT = frozenset(_TYPES.values()) - {"text", "jsonb"}


class PostgresStore(TableStore):
    placeholder = "%s"

    def __init__(self, address: str, shape: TableShape) -> None:
        super().__init__(shape)
        self._address = address
        self._connected: psycopg.Connection | None = None
        self._staged: list[str] = []

    # The connection

    @property
    def _connection(self) -> psycopg.Connection:
        """A new one after the last was lost: the batch that failed with it is written again."""
        if self._connected is None or self._connected.closed:
            self._connected = psycopg.connect(
                self._address,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_S,
                application_name=f"headrace {self._shape.job}",
                client_encoding="utf8",
            )
            self._connected.execute("SET TIME ZONE 'UTC'")  # of the timestamps in text
            self._has_stage = False
        return self._connected

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            state = error.sqlstate
            message = f"PostgreSQL at {place(self._address)}: {str(error).strip()}"
            is_lost = isinstance(error, psycopg.OperationalError) and state is None
            if is_lost or (state is not None and RETRYABLE_STATES.fullmatch(state)):
                raise SinkUnavailable(
                    message, hint="is the server running? The job writes the same batch again"
                ) from error
            raise BadSink(
                message, hint="the whole batch was rejected, and nothing of it is in the table"
            ) from error

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> psycopg.Cursor:
        return self._connection.execute(statement.encode(), values or None)

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close()

    # The table

    @contextlib.contextmanager
    def _preparation(self) -> Iterator[None]:
        with self._errors(), self._connection.transaction():
            # Two jobs that start together must not both create the same table.
            self._lock("headrace tables")
            yield

    def _lock(self, name: str) -> None:
        """Until the end of the transaction."""
        self._execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (name,))

    def _existing_columns(self) -> dict[str, ExistingColumn]:
        rows = self._execute(
            "SELECT attname, format_type(atttypid, atttypmod), atthasdef OR attidentity <> '' OR attgenerated <> '' "
            "FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            (self._table,),
        ).fetchall()
        return {name: ExistingColumn(type=kind, is_optional=optional) for name, kind, optional in rows}

    def _unique_keys(self) -> list[list[str]]:
        rows = self._execute(
            "SELECT array_agg(attname::text) FROM pg_index JOIN pg_attribute ON attrelid = indrelid "
            "AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1]) "
            "WHERE indrelid = to_regclass(%s) AND indisunique AND indpred IS NULL AND indexprs IS NULL "
            "GROUP BY indexrelid",
            (self._table,),
        ).fetchall()
        return [names for (names,) in rows]

    # A batch

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._errors():
            connection = self._connection
            if not self._has_stage:
                self._create_stage()
            self._staged.clear()
            with connection.transaction():
                # An older writer of this job must have ended before the fence is read.
                self._lock(f"headrace {self._shape.job} {self._shape.name}")
                # Otherwise a row would be rejected at the commit only.
                self._execute("SET CONSTRAINTS ALL IMMEDIATE")
                yield

    def _create_stage(self) -> None:
        """Of the table's types, without its constraints: the table itself rejects rows."""
        for stage, names in ((_STAGE, self._shape.names), (_STAGED_KEYS, self._shape.key)):
            self._execute(f"DROP TABLE IF EXISTS pg_temp.{stage}")
            if names:
                self._execute(
                    f"CREATE TEMP TABLE {stage} ON COMMIT DELETE ROWS AS "
                    f"SELECT {listed(names)} FROM {self._table} WITH NO DATA"
                )
        self._has_stage = True

    def delete(self, keys: pa.Table) -> Sequence[RowRejection]:
        return self._except_rejected(keys, self._delete)

    def put(self, rows: pa.Table) -> Sequence[RowRejection]:
        return self._except_rejected(rows, self._put)

    def _except_rejected(self, rows: pa.Table, write: Callable[[pa.Table], None]) -> Sequence[RowRejection]:
        rejected = _with_nul(rows)
        bad = {each.position for each in rejected}
        if not bad:
            return list(self._found_by_halves(rows, write))
        positions = [position for position in range(len(rows)) if position not in bad]
        for found in self._found_by_halves(rows.take(pa.array(positions, pa.int64())), write):
            rejected.append(RowRejection(position=positions[found.position], reason=found.reason))
        return rejected

    def _found_by_halves(self, rows: pa.Table, write: Callable[[pa.Table], None]) -> Iterator[RowRejection]:
        """Write all rows together; if the table rejects them, write each half separately."""
        pending, rejections = [(0, len(rows))] if len(rows) else [], 0
        while pending:
            begin, end = pending.pop()
            try:
                with self._connection.transaction():
                    write(rows.slice(begin, end - begin))
            except psycopg.Error as error:
                if error.sqlstate is None or not REJECTED_STATES.fullmatch(error.sqlstate):
                    raise
                if end - begin > 1:
                    middle = (begin + end) // 2
                    pending += [(middle, end), (begin, middle)]
                    continue
                rejections += 1
                if rejections > REJECTIONS_MAX:
                    raise BadSink(
                        f"table {self._shape.name} rejects more than {REJECTIONS_MAX} rows of a batch, the last one "
                        f"because of: {_reason(error)}",
                        hint="the table does not fit the rows: change one of them",
                    ) from error
                yield RowRejection(position=begin, reason=_reason(error))

    def _delete(self, keys: pa.Table) -> None:
        self._copy(_STAGED_KEYS, keys)
        is_same = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in self._shape.key)
        self._execute(f"DELETE FROM {self._table} t USING {_STAGED_KEYS} s WHERE {is_same}")

    def _put(self, rows: pa.Table) -> None:
        if not self._shape.replaces_rows:
            self._copy(self._table, rows)
            return
        self._copy(_STAGE, rows)
        names = rows.column_names
        self._execute(self._insert_statement(names, f"SELECT {listed(names)} FROM {_STAGE}"))

    def _combined(self, column: Column, how: str, old: str, new: str) -> str:
        if how == "sum":
            return f"{old} + {new}"
        return f"{'least' if how == 'min' else 'greatest'}({old}, {new})"

    def _copy(self, into: str, rows: pa.Table) -> None:
        if into is not self._table:
            if into in self._staged:
                self._execute(f"TRUNCATE {into}")  # rows of the half before this one
            self._staged.append(into)
        statement = f"COPY {into} ({listed(rows.column_names)}) FROM STDIN (FORMAT csv)"
        options = csv.WriteOptions(include_header=False, batch_size=COPY_ROWS)
        with self._connection.cursor() as cursor, cursor.copy(statement.encode()) as copy:
            for begin in range(0, len(rows), COPY_ROWS):
                buffer = pa.BufferOutputStream()
                csv.write_csv(_as_text(rows.slice(begin, COPY_ROWS)), buffer, options)
                copy.write(memoryview(buffer.getvalue()))

    @staticmethod
    def sql_type(column: Column) -> str:
        if column.kind is Kind.DECIMAL:
            return f"numeric({column.precision},{column.scale})"
        return _TYPES[column.kind]

    @staticmethod
    def can_hold(existing: str, column: Column) -> bool:
        """Whether a column of this type takes every value, or rejects single rows with a reason."""
        if existing == PostgresStore.sql_type(column) or existing in _ALSO_HOLDS.get(column.kind, ()):
            return True
        if column.kind is Kind.TEXT:
            return existing not in _NEVER_TEXT and not existing.startswith("numeric")
        if column.kind is Kind.DECIMAL and (found := re.fullmatch(r"numeric\((\d+),(\d+)\)", existing)):
            precision, scale = int(found[1]), int(found[2])
            return scale >= column.scale and precision - scale >= column.precision - column.scale
        return False


def place(address: str) -> str:
    """Host and database, without user and password."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        raise _bad_address() from None
    if "@" in f"{parts.get('host')}{parts.get('port')}{parts.get('dbname')}":
        raise _bad_address()  # that is the rest of a password
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"{parts.get('host') or 'localhost'}{port}/{parts.get('dbname') or ''}"


def _bad_address() -> BadSink:
    # The library's message would quote a part of the password.
    return BadSink(
        "the address of PostgreSQL can't be read",
        hint=f"it looks like postgresql://user@host:5432/database; {ESCAPE_HINT}",
    )


def _reason(error: psycopg.Error) -> str:
    """The server's message, without the line of our COPY."""
    parts = (error.diag.message_primary, error.diag.message_detail)
    return ": ".join(part for part in parts if part) or str(error).strip()


def _with_nul(rows: pa.Table) -> list[RowRejection]:
    """PostgreSQL's text can't have the character NUL, and its COPY does not report the row."""
    rejected = {}
    for name in rows.column_names:
        if pa.types.is_string(rows[name].type):
            has_nul = pc.match_substring(rows[name], "\0")
            if pc.any(has_nul).as_py():
                for position in np.flatnonzero(has_nul.fill_null(False).to_numpy()):
                    rejected[int(position)] = f"column {name}: PostgreSQL's text can't have the character NUL"
    return [RowRejection(position=position, reason=reason) for position, reason in sorted(rejected.items())]


def _as_text(rows: pa.Table) -> pa.Table:
    """Columns that Arrow's writer of CSV can write, in the notation that PostgreSQL reads."""
    for index, name in enumerate(rows.column_names):
        column = rows[name]
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            rows = rows.set_column(index, name, _hexadecimal(column))
        elif pa.types.is_timestamp(column.type):
            # Without its zone: Arrow would look up what UTC is for every value.
            rows = rows.set_column(index, name, column.cast(pa.timestamp("us")))
        elif pa.types.is_decimal(column.type):
            rows = rows.set_column(index, name, column.cast(pa.string()))
        elif pa.types.is_duration(column.type):
            microseconds = column.cast(pa.duration("us")).cast(pa.int64()).cast(pa.string())
            rows = rows.set_column(
                index, name, pc.binary_join_element_wise(microseconds, "microseconds", " ")
            )
    return rows


_HEXADECIMAL = np.array([list(f"{byte:02x}".encode()) for byte in range(256)], dtype=np.uint8)


def _hexadecimal(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """As in `\\x00ff`; all bytes of a column at once."""
    values = column.cast(pa.large_binary()).combine_chunks()
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks)
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int64)[
        values.offset : values.offset + len(values) + 1
    ]
    data = values.buffers()[2]
    used = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]] if data else np.empty(0, np.uint8)
    digits = pa.py_buffer(np.ascontiguousarray(_HEXADECIMAL[used]).tobytes())
    texts = pa.Array.from_buffers(
        pa.large_string(), len(values), [None, pa.py_buffer((offsets - offsets[0]) * 2), digits]
    )
    marked = pc.binary_join_element_wise(
        pa.scalar("\\x", pa.large_string()), texts, pa.scalar("", pa.large_string())
    )
    return pc.if_else(values.is_null(), pa.scalar(None, pa.large_string()), marked)
