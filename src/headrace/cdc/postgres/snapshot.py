"""Which tables a snapshot has still to read, and the statements that read them, chunk by chunk of the primary key.

Progress is a part of the position: `{"tables": [[schema, name], …], "key": […], "rows": N}`. Of the first table, rows
up to `key` have been yielded. A key is kept as PostgreSQL's texts, so that the next chunk can begin after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from headrace.cdc.postgres.catalog import CatalogTable
from headrace.cdc.postgres.connection import Connection, open_connection
from headrace.cdc.source import SnapshotProgress

Path = tuple[str, str]
Key = Sequence[str | None]

CHUNK_ROWS = 20_000
"""of the initial snapshot. Rows are not collected: a chunk costs one statement, no memory"""

WINDOW_ROWS = 2_000
"""of an incremental snapshot. They are in memory until their watermark arrives"""

WINDOW_BYTES_MAX = 16_000_000
"""of texts that are read for an incremental chunk; at least one row is read"""


class SnapshotQueue:
    """The tables that are still to be read, and how far the first of them is."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self._tables: list[Path] = [(schema, name) for schema, name in state.get("tables", ())]
        self._key: Key | None = state.get("key")
        self._rows: int = state.get("rows", 0)
        self._progress: dict[Path, SnapshotProgress] = {}
        self._totals: dict[Path, int | None] = {}
        self._listed = self._list()

    @property
    def current(self) -> Path | None:
        return self._tables[0] if self._tables else None

    @property
    def after(self) -> Key | None:
        return self._key

    @property
    def tables(self) -> list[Path]:
        return list(self._tables)

    def add(self, tables: Sequence[Path]) -> None:
        """A table that is being read is read once more: the request is for all of its rows."""
        waiting = self._tables[1:] if self._key is not None else self._tables
        self._tables += [table for table in tables if table not in waiting]
        self._listed = self._list()

    def expect(self, rows_total: int | None) -> None:
        """The database's estimate for the first table."""
        self._totals[self._tables[0]] = rows_total

    def read(self, key: Key, rows: int) -> None:
        """Rows of the first table up to `key` have been yielded."""
        self._key = key
        self._rows += rows

    def finish_table(self) -> None:
        path = self._tables.pop(0)
        self._progress[path] = self._of(path, self._rows, is_done=True)
        self._key = None
        self._rows = 0
        self._listed = self._list()

    def _list(self) -> list[list[str]]:
        # Positions share it: there is one for each row.
        return [list(path) for path in self._tables]

    def state(self) -> dict[str, Any] | None:
        """The part of a position; None if there is nothing to read."""
        if not self._tables:
            return None
        return {"tables": self._listed, "key": self._key, "rows": self._rows}

    def progress(self) -> list[SnapshotProgress]:
        waiting = {path: self._of(path, 0) for path in self._tables}
        if self._tables:
            waiting[self._tables[0]] = self._of(self._tables[0], self._rows)
        return list((self._progress | waiting).values())

    def _of(self, path: Path, rows: int, *, is_done: bool = False) -> SnapshotProgress:
        return SnapshotProgress(
            table=".".join(path), rows_read=rows, rows_total=self._totals.get(path), is_done=is_done
        )


def open_reader(address: str) -> Connection:
    """A connection for chunks. Without statistics of a table the planner would sort all of it for each chunk,
    instead of reading the index of the key."""
    connection = open_connection(address)
    for option in ("enable_sort", "enable_seqscan", "enable_bitmapscan"):
        connection.execute(sql.SQL("SET {} = off").format(sql.Identifier(option)))
    return connection


def chunk_statement(table: CatalogTable, after: Key | None, rows_max: int) -> sql.Composed:
    """The next rows in the order of the key. COPY prints values as the stream does; a cast to text would not."""
    key = sql.SQL(", ").join(map(sql.Identifier, table.key))
    condition: sql.Composable = sql.SQL("")
    if after is not None:
        # A text without a type: PostgreSQL reads it as a value of the column it is compared with.
        bounds = sql.SQL(", ").join(sql.Literal(text) for text in after)
        condition = sql.SQL("WHERE ({}) > ({})").format(key, bounds)
    return sql.SQL("COPY (SELECT {} FROM {} {} ORDER BY {} LIMIT {}) TO STDOUT").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns),
        table.reference,
        condition,
        key,
        sql.Literal(rows_max),
    )


def read_rows(connection: Connection, statement: sql.Composed) -> Iterator[tuple[str | None, ...]]:
    """Rows as texts, as they arrive. A caller that stops early finds the connection closed: there is no other way to
    end a COPY at once."""
    is_complete = False
    try:
        with connection.cursor().copy(statement) as copy:
            try:
                yield from copy.rows()
                is_complete = True
            finally:
                if (
                    not is_complete
                    and connection.info.transaction_status == psycopg.pq.TransactionStatus.ACTIVE
                ):
                    connection.close()
    except psycopg.Error:
        if is_complete or not connection.closed:
            raise


def read_window(
    connection: Connection, statement: sql.Composed, *, bytes_max: int = WINDOW_BYTES_MAX
) -> tuple[list[tuple[str | None, ...]], bool]:
    """The rows of a chunk, and whether reading ended early because they are large."""
    rows = []
    size = 0
    for row in read_rows(connection, statement):
        rows.append(row)
        size += sum(len(text) for text in row if text is not None)
        if size > bytes_max:
            return rows, True
    return rows, False
