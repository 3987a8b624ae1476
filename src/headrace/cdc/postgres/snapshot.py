"""The statements that read the rows of a snapshot, chunk by chunk of the primary key."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from psycopg import sql

from headrace.cdc.postgres.catalog import CatalogTable
from headrace.cdc.postgres.connection import Connection, open_connection
from headrace.cdc.snapshot_queue import Key

WINDOW_ROWS = 2_000
"""of an incremental snapshot. They are in memory until their watermark arrives"""

SAMPLES_PER_RANGE = 50
"""keys that are read to find the bounds of a range: the rows of a page or more"""

WINDOW_BYTES_MAX = 16_000_000
"""of texts that are read for an incremental chunk; at least one row is read"""


def open_reader(address: str) -> Connection:
    """A connection for chunks. Without statistics of a table the planner would sort all of it for each chunk,
    instead of reading the index of the key."""
    connection = open_connection(address)
    for option in ("enable_sort", "enable_seqscan", "enable_bitmapscan"):
        connection.execute(sql.SQL("SET {} = off").format(sql.Identifier(option)))
    return connection


def range_statement(table: CatalogTable, after: Key | None, until: Key | None) -> sql.Composed:
    """The rows between two keys, in the order of the key; all rows without bounds."""
    key = sql.SQL(", ").join(map(sql.Identifier, table.key))
    conditions = [
        sql.SQL("({}) {} ({})").format(key, operator, sql.SQL(", ").join(map(sql.Literal, bound)))
        for operator, bound in ((sql.SQL(">"), after), (sql.SQL("<="), until))
        if bound is not None
    ]
    return sql.SQL("COPY (SELECT {} FROM {} {} {} ORDER BY {}) TO STDOUT").format(
        sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns),
        table.reference,
        sql.SQL("WHERE" if conditions else ""),
        sql.SQL(" AND ").join(conditions),
        key,
    )


def sampled_keys(connection: Connection, table: CatalogTable, count: int) -> list[Key]:
    """Some keys of the table in their order, usually more than `count`: bounds of ranges of about the same size."""
    key = sql.SQL(", ").join(map(sql.Identifier, table.key))
    percent = min(100.0, 100 * count * SAMPLES_PER_RANGE / max(table.rows_total or 1, 1))
    statement = sql.SQL("COPY (SELECT {} FROM {} TABLESAMPLE SYSTEM ({}) ORDER BY {}) TO STDOUT").format(
        key, table.reference, sql.Literal(percent), key
    )
    with connection.cursor().copy(statement) as copy:
        return list(copy.rows())


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
    is_stopped = False
    try:
        with connection.cursor().copy(statement) as copy:
            try:
                yield from copy.rows()
            except GeneratorExit:
                is_stopped = True
                connection.close()
                raise
    except psycopg.Error:
        if not is_stopped:
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
