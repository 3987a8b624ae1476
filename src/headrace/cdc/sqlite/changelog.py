"""What a capture creates in the file, and what it reads there: the recorded changes, and rows of tables."""

from __future__ import annotations

import base64
import contextlib
import math
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from headrace.cdc.change import Row, Table
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.sqlite.schema import CapturedTable, captured_tables, quoted
from headrace.cdc.sqlite.triggers import Names, create_tables, create_triggers, widen_tables

BUSY_TIMEOUT_S = 30.0
"""A writer of the file keeps it for the length of its transaction."""

FETCH_ROWS = 1_000
"""Rows that are read into memory at once."""

DELETE_ROWS_MAX = 10_000
"""Changes that one transaction deletes: other writers wait for it."""

SQLITE_VERSION_MIN = (3, 37)
"""The first with `pragma table_list`."""

_TRANSIENT = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
    }
)


class RecordedChange(Struct, frozen=True, kw_only=True):
    id: int
    table: Table
    op: str
    at_ms: int
    before: Row
    after: Row


class Changelog:
    """One capture in one file. A connection of its own, in autocommit unless a method begins a transaction."""

    def __init__(self, capture: str, path: Path, patterns: Sequence[str]) -> None:
        if sqlite3.sqlite_version_info < SQLITE_VERSION_MIN:
            raise BadCapture(
                f"SQLite {sqlite3.sqlite_version} is too old for change capture",
                hint="use a Python with SQLite 3.37 or later",
            )
        if not path.exists():
            raise BadCapture(f"there is no file {path}", hint="name an existing SQLite file: sqlite:///FILE")
        self._names = Names(capture)
        self._path = path
        self._patterns = tuple(patterns)
        self._versions: dict[int, Table] = {}
        with self._errors():
            self._connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
            # Text that is not UTF-8 is possible. It stays visible, and does not end the capture.
            self._connection.text_factory = lambda text: text.decode(errors="backslashreplace")

    def close(self) -> None:
        self._connection.close()

    @property
    def is_wal(self) -> bool:
        with self._errors():
            return bool(self._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal")

    def data_version(self) -> tuple[int, int]:
        """Changes whenever another connection has committed: cheap to compare."""
        with self._errors():
            (data,) = self._connection.execute("PRAGMA data_version").fetchone()
            (schema,) = self._connection.execute("PRAGMA schema_version").fetchone()
            return int(data), int(schema)

    # What the capture creates

    def matching(self) -> list[CapturedTable]:
        with self._errors():
            return captured_tables(self._connection, self._patterns)

    def last_version(self) -> int:
        """Of any table; 0 before the first call of `follow_schema`."""
        with self._errors():
            if not self._connection.execute(
                "SELECT 1 FROM sqlite_master WHERE name = ?", (self._names.versions,)
            ).fetchone():
                return 0
            query = f"SELECT coalesce(max(version), 0) FROM {quoted(self._names.versions)}"
            return int(self._connection.execute(query).fetchone()[0])

    def installed_after(self, version: int) -> list[str]:
        """The tables whose current version is a later one: they are new or have changed, and so must be read."""
        with self._errors():
            return [each.name for number, each in self._current_versions().items() if number > version]

    def follow_schema(self) -> None:
        """Create what is missing, with a new version for each table that is new or has changed.

        A trigger names its columns, so a column that is added later is not recorded before this is called.
        """
        with self._transaction("IMMEDIATE"):
            for statement in create_tables(self._names):
                self._connection.execute(statement)
            current = self._current_versions()
            found = {each.name: each for each in captured_tables(self._connection, self._patterns)}
            in_place = self._tables_with_triggers()
            stale = [
                version
                for version, each in current.items()
                if found.get(each.name) != each or in_place.get(version) != each.name
            ]
            fresh = {each.name for version, each in current.items() if version not in stale}
            changed = [each for name, each in found.items() if name not in fresh]
            for version in stale:
                self._retire(version)
            for each in changed:
                self._install(each)

    def remove(self) -> None:
        with self._transaction("IMMEDIATE"):
            for (trigger,) in self._connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall():
                if self._names.is_trigger(trigger):
                    self._connection.execute(f"DROP TRIGGER {quoted(trigger)}")
            for table in self._names.tables:
                self._connection.execute(f"DROP TABLE IF EXISTS {quoted(table)}")

    def _current_versions(self) -> dict[int, CapturedTable]:
        query = f"SELECT version, captured FROM {quoted(self._names.versions)} WHERE is_current"
        return {
            version: msgspec.json.decode(text, type=CapturedTable)
            for version, text in self._connection.execute(query).fetchall()
        }

    def _tables_with_triggers(self) -> dict[int, str]:
        """By version, the table that has its triggers. If a table is renamed, its triggers go with it."""
        found = self._connection.execute(
            "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        suffix = "_insert"
        prefix = self._names.trigger(0, "").removesuffix("0_")
        return {
            int(number): table
            for name, table in found
            if self._names.is_trigger(name)
            and (number := name.removeprefix(prefix).removesuffix(suffix)).isdecimal()
        }

    def _retire(self, version: int) -> None:
        for (trigger,) in self._connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            if trigger.startswith(self._names.trigger(version, "")):
                self._connection.execute(f"DROP TRIGGER {quoted(trigger)}")
        self._connection.execute(
            f"UPDATE {quoted(self._names.versions)} SET is_current = 0 WHERE version = ?", (version,)
        )

    def _install(self, captured: CapturedTable) -> None:
        existing = [
            name
            for (name,) in self._connection.execute(
                "SELECT name FROM pragma_table_info(?)", (self._names.changes,)
            )
        ]
        for statement in widen_tables(self._names, existing, len(captured.table.columns)):
            self._connection.execute(statement)
        cursor = self._connection.execute(
            f"INSERT INTO {quoted(self._names.versions)} (captured, is_current) VALUES (?, 1)",
            (msgspec.json.encode(captured).decode(),),
        )
        assert cursor.lastrowid is not None
        for statement in create_triggers(self._names, cursor.lastrowid, captured):
            self._connection.execute(statement)

    # What the capture reads

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Everything that is read inside is of one state of the file."""
        with self._transaction("DEFERRED"):
            yield

    def last_id(self) -> int:
        with self._errors():
            query = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?"
            return int(self._connection.execute(query, (self._names.changes,)).fetchone()[0])

    def changes(self, after: int) -> Iterator[RecordedChange]:
        with self._errors():
            cursor = self._connection.execute(
                f"SELECT * FROM {quoted(self._names.changes)} WHERE id > ? ORDER BY id", (after,)
            )
            places = {name: place for place, (name, *_) in enumerate(cursor.description)}
            while rows := cursor.fetchmany(FETCH_ROWS):
                for row in rows:
                    table = self._version(row[1])
                    before, after_ = (
                        {
                            column.name: json_value(row[places[f"{side}{number}"]])
                            for number, column in enumerate(table.columns)
                        }
                        for side in "on"
                    )
                    yield RecordedChange(
                        id=row[0], table=table, op=row[2], at_ms=row[3], before=before, after=after_
                    )

    def rows(self, table: Table, after: Sequence[Any] | None) -> Iterator[tuple[Sequence[Any], Row]]:
        """The rows in the order of the key, after a key, each with its key as SQLite stores it."""
        key = ", ".join(quoted(name) for name in table.key)
        columns = ", ".join(quoted(column.name) for column in table.columns)
        where = f"WHERE ({key}) > ({', '.join('?' * len(table.key))})" if after is not None else ""
        with self._errors():
            cursor = self._connection.execute(
                f"SELECT {key}, {columns} FROM {quoted(table.path[0])} {where} ORDER BY {key}", after or ()
            )
            while rows := cursor.fetchmany(FETCH_ROWS):
                for row in rows:
                    values = row[len(table.key) :]
                    names = (column.name for column in table.columns)
                    yield (
                        row[: len(table.key)],
                        {name: json_value(value) for name, value in zip(names, values, strict=True)},
                    )

    def current_table(self, name: str) -> Table | None:
        with self._errors():
            return next((each.table for each in self._current_versions().values() if each.name == name), None)

    def count(self, name: str) -> int:
        with self._errors():
            return int(self._connection.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()[0])

    def delete(self, up_to: int) -> None:
        """Delete the changes up to an id, which the log has."""
        deleted = DELETE_ROWS_MAX
        while deleted == DELETE_ROWS_MAX:
            with self._transaction("IMMEDIATE"):
                table = quoted(self._names.changes)
                deleted = self._connection.execute(
                    f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE id <= ? LIMIT ?)",
                    (up_to, DELETE_ROWS_MAX),
                ).rowcount

    def _version(self, version: int) -> Table:
        if version not in self._versions:
            query = f"SELECT captured FROM {quoted(self._names.versions)} WHERE version = ?"
            (text,) = self._connection.execute(query, (version,)).fetchone()
            self._versions[version] = msgspec.json.decode(text, type=CapturedTable).table
        return self._versions[version]

    @contextlib.contextmanager
    def _transaction(self, kind: str) -> Iterator[None]:
        with self._errors():
            self._connection.execute(f"BEGIN {kind}")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _TRANSIENT:
                raise SourceUnavailable(f"{self._path}: {error}", hint="is its disk full?") from error
            raise BadCapture(
                f"{self._path}: {error}", hint="is it a SQLite file, and may this user write it?"
            ) from error


def json_value(value: Any) -> Any:
    """As JSON holds it: bytes in base64; numbers that JSON does not have as text."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
