"""The `Table` sink in PostgreSQL: a batch goes by COPY into a staging table, and from there in one statement.

A small batch goes from the driver into a temporary table, which is created once a connection, with the types of the
target, and empties itself at every commit. A larger one goes from its tasks into an unlogged table (`table_stage`,
`table_merge`). Rows go as CSV, which Arrow writes and every type of the target can read. ADBC's binary COPY, which must
match the types exactly, saved about a tenth of a batch's CPU time, most of which is the server's merge.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import psycopg
import pyarrow as pa

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.postgres_client import connect, postgres_errors, rejected_by_halves
from headrace.pipeline.sinks.sink import RejectedRow
from headrace.pipeline.sinks.table_copy import copy_rows, with_nul
from headrace.pipeline.sinks.table_merge import StageMerge
from headrace.pipeline.sinks.table_schema import Column, ExistingColumn, Kind
from headrace.pipeline.sinks.table_stage import (
    ATTEMPT,
    ORDER,
    RANK,
    REASON,
    WHOLE,
    StageLayout,
    order_type,
    stage_name,
    stages_of,
)
from headrace.pipeline.sinks.table_store import RowRejection, TableShape, TableStore, listed, quoted
from headrace.pipeline.sinks.table_task import StagedPart

STAGE_LOCK_TIMEOUT_MS = 2_000
"""A task that Spark no longer needs may hold its lock for a moment."""

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
            self._connected = connect(self._address, self._shape.job)
            self._has_stage = False
        return self._connected

    def _errors(self) -> AbstractContextManager[None]:
        return postgres_errors(self._address)

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> psycopg.Cursor:
        return self._connection.execute(statement.encode(), values or None)

    def close(self) -> None:
        if self._connected is not None:
            self._connected.close()

    # The table

    def prepare(self) -> None:
        super().prepare()
        with self._errors():
            self.drop_stages()

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

    def _base_types(self) -> dict[str, str]:
        rows = self._execute(
            "SELECT attname, format_type(atttypid, -1) FROM pg_attribute "
            "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
            (self._table,),
        ).fetchall()
        return dict(rows)

    # A staged batch

    @property
    def address(self) -> str:
        """With the password."""
        return self._address

    def create_stage(self, layout: StageLayout, fence: Fence) -> str:
        """The staging table of this try of a batch. Those of others are left by a crash."""
        name = stage_name(self._shape, fence)
        lines = [
            f"{layout.staged_name(column.name)} {self._staged_type(column)}" for column in layout.columns
        ]
        if layout.order is not None:
            lines.append(f"{ORDER} {order_type(layout.order)}")
        lines += [f"{RANK} bigint", f"{ATTEMPT} bigint", f"{REASON} text", f"{WHOLE} bytea"]
        with self._errors():
            self.drop_stages()
            self._execute(
                f"CREATE UNLOGGED TABLE {name} ({', '.join(lines)}) WITH (autovacuum_enabled = false)"
            )
        return name

    def merge(
        self, layout: StageLayout, stage: str, parts: Sequence[StagedPart]
    ) -> tuple[int, list[RejectedRow]]:
        """How many staged rows were written, and the rejected ones."""
        merge = StageMerge(
            connection=self._connection,
            table=self._table,
            keys=_STAGED_KEYS,
            stage=stage,
            layout=layout,
            parts=parts,
            types=self._base_types(),
            own_type=self._staged_type,
            insert_statement=self._insert_statement,
        )
        return merge.run()

    def drop_stages(self) -> None:
        """All of this job and table. One that a task still writes to is left until the next time."""
        found = self._execute(
            "SELECT oid::regclass::text FROM pg_class "
            "WHERE starts_with(relname::text, %s) AND relkind = 'r' AND pg_table_is_visible(oid)",
            (stages_of(self._shape.job, self._shape.name),),
        ).fetchall()
        for (name,) in found:
            with contextlib.suppress(psycopg.errors.LockNotAvailable), self._connection.transaction():
                self._execute(f"SET LOCAL lock_timeout = {STAGE_LOCK_TIMEOUT_MS}")
                self._execute(f"DROP TABLE IF EXISTS {name}")

    @staticmethod
    def _staged_type(column: Column) -> str:
        return "text" if column.kind is Kind.JSON else PostgresStore.sql_type(column)

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
        rejected = with_nul(rows)
        bad = {each.position for each in rejected}
        if not bad:
            return list(self._by_halves(rows, write))
        positions = [position for position in range(len(rows)) if position not in bad]
        for found in self._by_halves(rows.take(pa.array(positions, pa.int64())), write):
            rejected.append(RowRejection(position=positions[found.position], reason=found.reason))
        return rejected

    def _by_halves(self, rows: pa.Table, write: Callable[[pa.Table], None]) -> Iterator[RowRejection]:
        def write_part(begin: int, end: int) -> None:
            write(rows.slice(begin, end - begin))

        return rejected_by_halves(self._connection, self._shape.name, len(rows), write_part)

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
        copy_rows(self._connection, into, rows)

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
