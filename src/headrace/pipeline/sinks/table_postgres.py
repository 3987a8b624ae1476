"""The `Table` sink in PostgreSQL: a batch goes by COPY into a temporary table, and from there in one statement.

The temporary table is made once a connection, of the target's own types, and empties itself at every commit. Rows go as
CSV, which Arrow writes and every type of the target can read. ADBC's binary COPY, which must match the types exactly,
saved about a tenth of a batch's CPU time, most of which is the server's merge.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import LiteralString

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from psycopg import sql
from pyarrow import csv

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.table_schema import Column, ExistingColumn, Kind, columns_to_add
from headrace.pipeline.sinks.table_store import FENCES, RowRefusal, TableShape, TableStore
from headrace.redaction import ESCAPE_HINT

CONNECT_TIMEOUT_S = 10
"""A server that does not answer by then is unavailable; the job restarts."""

COPY_ROWS = 65_536
"""Rows that are turned into text at a time: some megabytes, whatever the batch."""

REFUSALS_MAX = 1_000
"""Finding one refused row takes about twenty attempts. If more rows are refused, the table does not fit the rows."""

REFUSED_STATES = re.compile("22...|23...|44000|54000|P0001")
"""Errors that one row's values cause: data, constraints, a view's check, an index entry too long, a trigger's word."""

RETRYABLE_STATES = re.compile("08...|40...|53...|55P03|57...|58...")
"""Errors that pass: connections, deadlocks, resources, locks, shutdown, the server's disk."""

_STAGE, _STAGED_KEYS = sql.Identifier("headrace_stage"), sql.Identifier("headrace_stage_keys")

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
# Text is read by the type's own parser, and what it can't read is refused row by row.
_NEVER_TEXT = frozenset(_TYPES.values()) - {"text", "jsonb"}


class PostgresStore(TableStore):
    def __init__(self, address: str, shape: TableShape) -> None:
        self._address = address
        self._shape = shape
        self._table = sql.Identifier(*shape.name.split("."))
        self._connected: psycopg.Connection | None = None
        self._staged: list[sql.Identifier] = []

    # The connection

    @property
    def _connection(self) -> psycopg.Connection:
        """A new one after the last was lost: the batch that fell with it is tried again."""
        if self._connected is None or self._connected.closed:
            self._connected = psycopg.connect(
                self._address,
                autocommit=True,
                connect_timeout=CONNECT_TIMEOUT_S,
                application_name=f"headrace {self._shape.job}",
                client_encoding="utf8",
            )
            self._connected.execute("SET TIME ZONE 'UTC'")  # of the timestamps that come as text
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
                    message, hint="is the server running? The same batch is written when it is back"
                ) from error
            raise BadSink(
                message, hint="the whole batch was refused, and nothing of it is in the table"
            ) from error

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close()

    # The table

    def prepare(self) -> None:
        with self._errors(), self._connection.transaction():
            # Two jobs that start together must not both make the same table.
            self._execute("SELECT pg_advisory_xact_lock(hashtextextended('headrace tables', 0))")
            self._execute(
                "CREATE TABLE IF NOT EXISTS {} (job text, target text, checkpoint text, batch_id bigint, fence text, "
                "written_at timestamptz DEFAULT now(), PRIMARY KEY (job, target))",
                sql.Identifier(FENCES),
            )
            existing = self._existing_columns()
            if existing:
                self._fit(existing)
            else:
                self._create()

    def _existing_columns(self) -> dict[str, ExistingColumn]:
        rows = self._execute(
            "SELECT attname, format_type(atttypid, atttypmod), atthasdef OR attidentity <> '' OR attgenerated <> '' "
            "FROM pg_attribute WHERE attrelid = to_regclass({}) AND attnum > 0 AND NOT attisdropped",
            sql.Literal(self._table.as_string(self._connection)),
        ).fetchall()
        return {name: ExistingColumn(type=kind, is_optional=optional) for name, kind, optional in rows}

    def _create(self) -> None:
        shape = self._shape
        lines = [_definition(column) for column in shape.columns]
        if shape.key:
            lines.append(sql.SQL("PRIMARY KEY ({})").format(_list(shape.key)))
        self._execute("CREATE TABLE {} ({})", self._table, sql.SQL(", ").join(lines))

    def _fit(self, existing: dict[str, ExistingColumn]) -> None:
        shape = self._shape
        to_add = columns_to_add(
            shape.name, shape.columns, existing, key=shape.key, sql_type=sql_type, can_hold=can_hold
        )
        for column in to_add:
            self._execute("ALTER TABLE {} ADD COLUMN {}", self._table, _definition(column))
        if shape.key and shape.mode != "append" and not self._has_unique_key():
            raise BadSink(
                f"table {shape.name} has no primary key or unique index on {', '.join(shape.key)}",
                hint=f"ALTER TABLE {shape.name} ADD PRIMARY KEY ({', '.join(shape.key)}), "
                "or write to a table of another name",
            )

    def _has_unique_key(self) -> bool:
        rows = self._execute(
            "SELECT array_agg(attname::text) FROM pg_index JOIN pg_attribute ON attrelid = indrelid "
            "AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1]) "
            "WHERE indrelid = to_regclass({}) AND indisunique AND indpred IS NULL AND indexprs IS NULL "
            "GROUP BY indexrelid",
            sql.Literal(self._table.as_string(self._connection)),
        ).fetchall()
        return any(set(names) == set(self._shape.key) for (names,) in rows)

    # A batch

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        shape = self._shape
        with self._errors():
            connection = self._connection
            if not self._has_stage:
                self._make_stage()
            self._staged.clear()
            with connection.transaction():
                # A writer of this job that was believed dead must be done before the fence is read.
                self._execute(
                    "SELECT pg_advisory_xact_lock(hashtextextended({}, 0))",
                    sql.Literal(f"headrace {shape.job} {shape.name}"),
                )
                self._execute("SET CONSTRAINTS ALL IMMEDIATE")  # or a row would be refused at the commit only
                yield

    def _make_stage(self) -> None:
        """Types only: what the table demands of a row is for the table to say."""
        for stage, names in ((_STAGE, self._names), (_STAGED_KEYS, self._shape.key)):
            self._execute("DROP TABLE IF EXISTS pg_temp.{}", stage)
            if names:
                self._execute(
                    "CREATE TEMP TABLE {} ON COMMIT DELETE ROWS AS SELECT {} FROM {} WITH NO DATA",
                    *(stage, _list(names), self._table),
                )
        self._has_stage = True

    @property
    def _names(self) -> list[str]:
        return [column.name for column in self._shape.columns]

    def fence(self) -> Fence | None:
        with self._errors():
            row = self._execute(
                "SELECT fence FROM {} WHERE job = {} AND target = {}", *self._fence_place()
            ).fetchone()
        return None if row is None else Fence.from_json(row[0])

    def keep_fence(self, fence: Fence) -> None:
        values = [sql.Literal(each) for each in (fence.checkpoint, fence.batch_id, fence.to_json())]
        self._execute(
            "INSERT INTO {} (job, target, checkpoint, batch_id, fence) VALUES ({}, {}, {}, {}, {}) "
            "ON CONFLICT (job, target) DO UPDATE SET checkpoint = excluded.checkpoint, "
            "batch_id = excluded.batch_id, fence = excluded.fence, written_at = now()",
            *(*self._fence_place(), *values),
        )

    def remove_fence(self) -> None:
        self._execute("DELETE FROM {} WHERE job = {} AND target = {}", *self._fence_place())

    def _fence_place(self) -> tuple[sql.Composable, ...]:
        return sql.Identifier(FENCES), sql.Literal(self._shape.job), sql.Literal(self._shape.name)

    def remove_all(self) -> None:
        """Not TRUNCATE: it would wait for every reader, and make every reader wait."""
        self._execute("DELETE FROM {}", self._table)

    def remove(self, keys: pa.Table) -> Sequence[RowRefusal]:
        return self._but_refused(keys, self._remove_all_of)

    def put(self, rows: pa.Table) -> Sequence[RowRefusal]:
        return self._but_refused(rows, self._put_all)

    def _but_refused(self, rows: pa.Table, write: Callable[[pa.Table], None]) -> Sequence[RowRefusal]:
        refused = _with_nul(rows)
        bad = {each.position for each in refused}
        if not bad:
            return list(self._found_by_halves(rows, write))
        positions = [position for position in range(len(rows)) if position not in bad]
        for found in self._found_by_halves(rows.take(pa.array(positions, pa.int64())), write):
            refused.append(RowRefusal(position=positions[found.position], reason=found.reason))
        return refused

    def _found_by_halves(self, rows: pa.Table, write: Callable[[pa.Table], None]) -> Iterator[RowRefusal]:
        """Write all rows together; if the table refuses them, write each half separately."""
        pending, refusals = [(0, len(rows))] if len(rows) else [], 0
        while pending:
            begin, end = pending.pop()
            try:
                with self._connection.transaction():
                    write(rows.slice(begin, end - begin))
            except psycopg.Error as error:
                if error.sqlstate is None or not REFUSED_STATES.fullmatch(error.sqlstate):
                    raise
                if end - begin > 1:
                    middle = (begin + end) // 2
                    pending += [(middle, end), (begin, middle)]
                    continue
                refusals += 1
                if refusals > REFUSALS_MAX:
                    raise BadSink(
                        f"table {self._shape.name} refuses more than {REFUSALS_MAX} rows of a batch, the last one "
                        f"because of: {_reason(error)}",
                        hint="the table does not fit the rows: change one of them",
                    ) from error
                yield RowRefusal(position=begin, reason=_reason(error))

    def _remove_all_of(self, keys: pa.Table) -> None:
        self._copy(_STAGED_KEYS, keys)
        here = sql.SQL(" AND ").join(
            sql.SQL("t.{} = s.{}").format(sql.Identifier(name), sql.Identifier(name))
            for name in self._shape.key
        )
        self._execute("DELETE FROM {} t USING {} s WHERE {}", self._table, _STAGED_KEYS, here)

    def _put_all(self, rows: pa.Table) -> None:
        if self._shape.mode == "append" or not self._shape.key:
            self._copy(self._table, rows)
            return
        self._copy(_STAGE, rows)
        names = rows.column_names
        self._execute(
            "INSERT INTO {} AS t ({}) SELECT {} FROM {} ON CONFLICT ({}) DO {}",
            *(self._table, _list(names), _list(names), _STAGE, _list(self._shape.key), self._update(names)),
        )

    def _update(self, names: Sequence[str]) -> sql.Composable:
        others = [name for name in names if name not in self._shape.key]
        if not others:
            return sql.SQL("NOTHING")
        changes = [sql.SQL("{} = {}").format(sql.Identifier(name), self._merged(name)) for name in others]
        return sql.SQL("UPDATE SET {}").format(sql.SQL(", ").join(changes))

    def _merged(self, name: str) -> sql.Composable:
        """What a row that is there gets in this column. A null adds nothing."""
        here, new = sql.Identifier("t", name), sql.Identifier("excluded", name)
        how = self._shape.merge.get(name)
        if how is None:
            return new
        if how == "sum":
            return sql.SQL("coalesce({} + {}, {}, {})").format(here, new, here, new)
        return sql.SQL("least({}, {})" if how == "min" else "greatest({}, {})").format(here, new)

    def _copy(self, into: sql.Identifier, rows: pa.Table) -> None:
        if into is not self._table:
            if into in self._staged:
                self._execute("TRUNCATE {}", into)  # what the half before this one has left
            self._staged.append(into)
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(into, _list(rows.column_names))
        options = csv.WriteOptions(include_header=False, batch_size=COPY_ROWS)
        with self._connection.cursor() as cursor, cursor.copy(statement) as copy:
            for begin in range(0, len(rows), COPY_ROWS):
                buffer = pa.BufferOutputStream()
                csv.write_csv(_as_text(rows.slice(begin, COPY_ROWS)), buffer, options)
                copy.write(memoryview(buffer.getvalue()))

    def _execute(self, statement: LiteralString, *parts: sql.Composable) -> psycopg.Cursor:
        return self._connection.execute(sql.SQL(statement).format(*parts))


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
    # What the library found wrong would quote a part of the password.
    return BadSink(
        "the address of PostgreSQL can't be read",
        hint=f"it looks like postgresql://user@host:5432/database; {ESCAPE_HINT}",
    )


def sql_type(column: Column) -> str:
    if column.kind is Kind.DECIMAL:
        return f"numeric({column.precision},{column.scale})"
    return _TYPES[column.kind]


def can_hold(existing: str, column: Column) -> bool:
    """Whether a column of this type takes every value, or can say which it does not take."""
    if existing == sql_type(column) or existing in _ALSO_HOLDS.get(column.kind, ()):
        return True
    if column.kind is Kind.TEXT:
        return existing not in _NEVER_TEXT and not existing.startswith("numeric")
    if column.kind is Kind.DECIMAL and (found := re.fullmatch(r"numeric\((\d+),(\d+)\)", existing)):
        precision, scale = int(found[1]), int(found[2])
        return scale >= column.scale and precision - scale >= column.precision - column.scale
    return False


def _definition(column: Column) -> sql.Composable:
    return sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(sql_type(column)))


def _list(names: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join([sql.Identifier(name) for name in names])


def _reason(error: psycopg.Error) -> str:
    """What the server says of the row, without where in our COPY it stood."""
    parts = (error.diag.message_primary, error.diag.message_detail)
    return ": ".join(part for part in parts if part) or str(error).strip()


def _with_nul(rows: pa.Table) -> list[RowRefusal]:
    """PostgreSQL's text can't have the character NUL, and its COPY does not say in which row it was."""
    refused = {}
    for name in rows.column_names:
        if pa.types.is_string(rows[name].type):
            has_nul = pc.match_substring(rows[name], "\0")
            if pc.any(has_nul).as_py():
                for position in np.flatnonzero(has_nul.fill_null(False).to_numpy()):
                    refused[int(position)] = f"column {name}: PostgreSQL's text can't have the character NUL"
    return [RowRefusal(position=position, reason=reason) for position, reason in sorted(refused.items())]


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
