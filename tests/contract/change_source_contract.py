"""What a database provides to be tested against the contract of all change sources.

`test_change_sources.py` runs every promise on each case. The SQL of the tests is what all databases understand.
"""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from headrace.cdc.change import Change, Committed, Event, Op, Position
from headrace.cdc.mysql.source import MysqlSource
from headrace.cdc.postgres.source import PostgresSource
from headrace.cdc.source import ChangeSource
from headrace.cdc.sqlite.source import SqliteSource
from headrace.testing.mariadb import MariadbServer
from headrace.testing.postgres import PostgresServer

QUIET_S = 60.0
"""A source that yields nothing for so long has lost something."""


class SourceCase(Struct, frozen=True, kw_only=True):
    """A database with nothing in it.

    open    a source that captures the tables of these patterns, by default all
    run     statements in one transaction, on a connection of their own
    rows    the rows of a table, as the events have them
    """

    open: Callable[..., ChangeSource]
    run: Callable[..., None]
    rows: Callable[[str], list[dict[str, Any]]]


def sqlite_case(folder: Path) -> SourceCase:
    path = folder / "shop.db"
    sqlite3.connect(path).execute("PRAGMA journal_mode = WAL").close()

    def connected() -> contextlib.closing[sqlite3.Connection]:
        return contextlib.closing(sqlite3.connect(path, timeout=30))

    def run(*statements: str) -> None:
        with connected() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in statements:
                connection.execute(statement)

    def rows(table: str) -> list[dict[str, Any]]:
        with connected() as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(f'SELECT * FROM "{table}"')]

    def open_source(tables: Sequence[str] = ("*",)) -> ChangeSource:
        return SqliteSource("contract", path, tables)

    return SourceCase(open=open_source, run=run, rows=rows)


def postgres_case(server: PostgresServer) -> SourceCase:
    import psycopg
    from psycopg.rows import dict_row

    address = server.create_database(f"contract_{uuid.uuid4().hex[:12]}")

    def run(*statements: str) -> None:
        with psycopg.connect(address) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def rows(table: str) -> list[dict[str, Any]]:
        with psycopg.connect(address, row_factory=dict_row) as connection:
            return connection.execute(f'SELECT * FROM "{table}"'.encode()).fetchall()

    def open_source(tables: Sequence[str] = ("*.*",)) -> ChangeSource:
        return PostgresSource(address.rpartition("/")[2], address, tables)

    return SourceCase(open=open_source, run=run, rows=rows)


def mariadb_case(server: MariadbServer) -> SourceCase:
    import pymysql

    database = f"contract_{uuid.uuid4().hex[:12]}"
    address = server.create_database(database)

    connections = threading.local()

    def connected() -> Any:
        """One connection for each thread: opening one takes several messages."""
        if not hasattr(connections, "opened"):
            # Names in double quotes, as in the SQL of the other databases.
            settings = {"init_command": "SET sql_mode = 'ANSI'", "cursorclass": pymysql.cursors.DictCursor}
            connections.opened = pymysql.connect(**server.login, database=database, **settings)
        return connections.opened

    def run(*statements: str) -> None:
        connection = connected()
        try:
            for statement in statements:
                connection.cursor().execute(statement)
            connection.commit()
        finally:
            connection.rollback()

    def rows(table: str) -> list[dict[str, Any]]:
        with connected().cursor() as cursor:
            cursor.execute(f'SELECT * FROM "{table}"')
            return list(cursor.fetchall())

    def open_source(tables: Sequence[str] = ("*",)) -> ChangeSource:
        return MysqlSource("contract", address, tables)

    return SourceCase(open=open_source, run=run, rows=rows)


CASES: dict[str, Callable[[pytest.FixtureRequest], SourceCase]] = {
    "sqlite": lambda request: sqlite_case(request.getfixturevalue("tmp_path")),
    "postgres": lambda request: postgres_case(request.getfixturevalue("postgres")),
    "mariadb": lambda request: mariadb_case(request.getfixturevalue("mariadb")),
}


class Reader:
    """Reads a source as the runner does, and can be closed and opened again at a position."""

    def __init__(
        self,
        case: SourceCase,
        position: Position | None = None,
        *,
        once: bool = False,
        requested: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self.source = case.open(**options)
        if requested:
            self.source.snapshot(requested)
        self._events = self.source.events(position, once=once)

    def until(self, is_last: Callable[[Event], bool]) -> list[Event]:
        found: list[Event] = []
        deadline_s = time.monotonic() + QUIET_S
        for event in self._events:
            assert time.monotonic() < deadline_s, f"the event never came; so far: {found}"
            if event is not None:
                found.append(event)
                if is_last(event):
                    return found
        raise AssertionError("the events have an end")

    def take(self, count: int) -> list[Event]:
        numbers = itertools.count(1)
        return self.until(lambda _event: next(numbers) == count)

    def rest(self) -> list[Event]:
        """Of a reader that ends."""
        return [event for event in self._events if event is not None]

    def close(self) -> None:
        self._events.close()
        self.source.close()


def snapshot_end(event: Event) -> bool:
    return isinstance(event, Committed) and not event.position.get("snapshot")


def until_row(key: int) -> Callable[[Event], bool]:
    """The end of the transaction that has the row with this id."""
    seen: list[Event] = []

    def is_last(event: Event) -> bool:
        if isinstance(event, Change) and (event.after or {}).get("id") == key:
            seen.append(event)
        return bool(seen) and isinstance(event, Committed)

    return is_last


def changes(events: Sequence[Event]) -> list[Change]:
    return [each for each in events if isinstance(each, Change)]


def in_short(events: Sequence[Event]) -> list[tuple[str, Any, Any]]:
    return [(each.op.value, each.before, each.after) for each in changes(events)]


def replayed(events: Sequence[Event], key: str = "id") -> dict[Any, Any]:
    """The rows by key after all changes. A delete of a row that is not there is a fault of the source."""
    rows: dict[Any, Any] = {}
    for change in changes(events):
        if change.op is Op.DELETE:
            assert change.before is not None
            del rows[change.before[key]]
        else:
            assert change.after is not None
            rows[change.after[key]] = change.after
    return rows


@contextlib.contextmanager
def closing(reader: Reader) -> Iterator[Reader]:
    try:
        yield reader
    finally:
        reader.close()
