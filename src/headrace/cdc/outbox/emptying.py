"""Deletes rows of the outbox that the log has, by a connection of its own to whichever database it is."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.outbox.definition import Outbox
from headrace.cdc.outbox.router import require_columns
from headrace.redaction import redacted, scrubbed

DELETE_ROWS_MAX = 500
"""Rows that one transaction deletes. A statement of SQLite has at most 999 parameters."""

LOCK_TIMEOUT_S = 0.1
"""How long a deletion waits for a row, or for a SQLite file, that another program has locked. It is tried again later.
A SQLite file without a write-ahead log is also locked while the capture itself reads it."""


class OutboxRows:
    """The rows of an outbox table. Nothing connects before the first call."""

    def __init__(self, address: str, outbox: Outbox) -> None:
        self._outbox = outbox
        scheme = address.partition(":")[0]
        self._database = _DATABASES.get(scheme, _Postgres)(address)
        self._table = self._database.quoted(outbox.table)
        self._connection: Any = None

    def check(self) -> None:
        """Raises `BadCapture` if a column is missing, or if the rows may not be deleted."""
        with self._cursor("read") as cursor:
            cursor.execute(f"SELECT * FROM {self._table} WHERE 1 = 0")
            require_columns(self._outbox, dict.fromkeys(each[0] for each in cursor.description))
        if self._outbox.delete:
            with contextlib.suppress(_Locked), self._cursor("delete from") as cursor:
                cursor.execute(f"DELETE FROM {self._table} WHERE 1 = 0")

    def delete(self, ids: Sequence[Any]) -> bool:
        """Whether all were deleted, or were missing already; not if another program has locked them."""
        id = self._database.quoted_name("id")
        for start in range(0, len(ids), DELETE_ROWS_MAX):
            some = ids[start : start + DELETE_ROWS_MAX]
            marks = ", ".join([self._database.mark] * len(some))
            try:
                with self._cursor("delete from") as cursor:
                    cursor.execute(f"DELETE FROM {self._table} WHERE {id} IN ({marks})", tuple(some))
            except _Locked:
                return False
        return True

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _cursor(self, doing: str) -> Iterator[Any]:
        """Of one transaction. After a failure, the next call connects again."""
        with self._database.errors(doing, self._outbox.table):
            try:
                if self._connection is None:
                    self._connection = self._database.connect()
                with contextlib.closing(self._connection.cursor()) as cursor:
                    yield cursor
                self._connection.commit()
            except BaseException:
                with contextlib.suppress(Exception):
                    self.close()
                self._connection = None
                raise


class _Locked(Exception):
    """Another program has locked the rows or the file."""


class _Database:
    """What differs between databases: how to connect, names and parameters in statements, errors."""

    mark = "%s"
    quote = '"'

    def __init__(self, address: str) -> None:
        self._address = address

    def quoted_name(self, name: str) -> str:
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def quoted(self, table: str) -> str:
        """A table with its schema or database before it."""
        return ".".join(self.quoted_name(part) for part in table.split(".", 1))

    def connect(self) -> Any:
        raise NotImplementedError

    def errors(self, doing: str, table: str) -> contextlib.AbstractContextManager[None]:
        raise NotImplementedError

    def not_allowed(self, doing: str, table: str, reason: object) -> BadCapture:
        return BadCapture(
            f"the user of {redacted(self._address)} may not {doing} outbox {table}: "
            f"{scrubbed(str(reason).strip(), self._address)}",
            hint=f"GRANT SELECT, DELETE ON {self.quoted(table)} TO that user, or --no-outbox-delete "
            "if your program deletes the rows",
        )


class _Sqlite(_Database):
    mark = "?"

    def quoted(self, table: str) -> str:
        return self.quoted_name(table)

    def connect(self) -> Any:
        path = Path(self._address.partition("://")[2].removeprefix("/"))
        if not path.exists():
            raise BadCapture(f"there is no file {path}", hint="name an existing SQLite file: sqlite:///FILE")
        return sqlite3.connect(path, timeout=LOCK_TIMEOUT_S, check_same_thread=False)

    @contextlib.contextmanager
    def errors(self, doing: str, table: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise _Locked from error
            if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
                raise self.not_allowed(doing, table, error) from error
            if code == sqlite3.SQLITE_ERROR:
                raise BadCapture(f"outbox {table}: {error}", hint="check the name of the table") from error
            raise SourceUnavailable(f"outbox {table}: {error}", hint="is the disk full?") from error


class _Postgres(_Database):
    def connect(self) -> Any:
        from headrace.cdc.postgres.connection import open_connection

        connection = open_connection(self._address)
        connection.execute(f"SET lock_timeout = {int(LOCK_TIMEOUT_S * 1_000)}".encode())
        return connection

    @contextlib.contextmanager
    def errors(self, doing: str, table: str) -> Iterator[None]:
        import psycopg

        from headrace.cdc.postgres.connection import translated

        with translated(self._address):
            try:
                yield
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
                raise _Locked from error
            except psycopg.errors.InsufficientPrivilege as error:
                raise self.not_allowed(doing, table, error) from None


class _Mysql(_Database):
    quote = "`"
    not_granted = frozenset({1044, 1142, 1143})
    locked = frozenset({1205, 1213})

    def connect(self) -> Any:
        from headrace.cdc.mysql.connection import Connection

        connection = Connection(self._address)
        connection.execute("SET SESSION innodb_lock_wait_timeout = 1")  # its unit is a second
        return connection.driver

    @contextlib.contextmanager
    def errors(self, doing: str, table: str) -> Iterator[None]:
        import pymysql

        from headrace.cdc.mysql.connection import code_of, translated

        with translated(self._address):
            try:
                yield
            except pymysql.err.MySQLError as error:
                if code_of(error) in self.locked:
                    raise _Locked from error
                if code_of(error) in self.not_granted:
                    raise self.not_allowed(doing, table, error) from None
                raise


_DATABASES: dict[str, type[_Database]] = {
    "sqlite": _Sqlite,
    "postgresql": _Postgres,
    "postgres": _Postgres,
    "mysql": _Mysql,
    "mariadb": _Mysql,
}
