"""Views in SQLite: a table for each version, and a view of the database with the view's name.

Which version is served is in the table `headrace_views`, and changes in the transaction that replaces the view. Readers
of other processes see the change with their next statement, and never a database without the name.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.views.definition import Definition, Row
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.reader import Reader
from headrace.views.store import Store

if TYPE_CHECKING:
    from headrace.pipeline.sinks.sink import Sink

VIEWS_FILE = "views.db"
"""The database, in the data folder, of views that are given no other."""

BUSY_TIMEOUT_S = 60.0
"""A batch of a million rows may keep the file for some seconds."""

SERVED = "headrace_views"
FENCES = "headrace_fences"

_INDEX = re.compile(
    r'CREATE (?P<unique>UNIQUE )?INDEX\s+(?:"(?:[^"]|"")*"|\[[^\]]*\]|`[^`]*`|\S+)\s+ON\s+'
    r'(?:"(?:[^"]|"")*"|\[[^\]]*\]|`[^`]*`|[^\s(]+)\s*(?P<columns>\(.*)',
    re.IGNORECASE | re.DOTALL,
)
_VERSION_SUFFIX = re.compile(r"__\d+$")


class SqliteViews(Store):
    def __init__(self, definition: Definition, data_dir: Path) -> None:
        super().__init__(definition, data_dir)
        self.path = _path(definition.at, data_dir)
        self._opened: sqlite3.Connection | None = None

    # Before the first version

    def check(self) -> None:
        folder = self.path.parent
        existing = next(each for each in (folder, *folder.parents) if each.exists())
        if not existing.is_dir():
            raise BadView(f"{existing} is not a folder", hint="--at names a file of SQLite")
        if not self.path.exists():
            return
        name = self.definition.name
        taken = self._execute("SELECT type FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        if taken is not None and self.served() is None:
            raise BadView(
                f"{self.path} has a {taken[0]} {name} already",
                hint="give the view another name, or another file with --at",
            )

    # Versions

    def sink(self, version: int) -> Sink:
        from headrace.pipeline.sinks import Table

        return Table(self.definition.physical(version), key=self.definition.key, at=self.path)

    def versions(self) -> list[int]:
        if not self.path.exists():
            return []
        tables = self._execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return sorted(version for (name,) in tables if (version := self.definition.version_of(name)))

    def served(self) -> int | None:
        if not self.path.exists() or not self._has(SERVED):
            return None
        row = self._execute(
            f"SELECT version FROM {SERVED} WHERE view = ?", (self.definition.name,)
        ).fetchone()
        return None if row is None else int(row[0])

    def drop(self, version: int) -> None:
        if not self.path.exists():
            return
        table = self.definition.physical(version)
        with self._transaction():
            self._execute(f"DROP TABLE IF EXISTS {_quoted(table)}")
            if self._has(FENCES):
                self._execute(f"DELETE FROM {FENCES} WHERE target = ?", (table,))

    def drop_view(self) -> None:
        if not self.path.exists():
            return
        if self.served() is not None:
            with self._transaction():
                self._execute(f"DROP VIEW IF EXISTS {_quoted(self.definition.name)}")
                self._execute(f"DELETE FROM {SERVED} WHERE view = ?", (self.definition.name,))
        for version in self.versions():
            self.drop(version)

    # The switch

    def switch(self, version: int) -> None:
        self.switch_together({}, version)

    @property
    def switch_group(self) -> str:
        return f"sqlite {self.path.resolve()}"

    def switch_together(self, others: Mapping[Store, int], version: int) -> None:
        pairs = {self: version, **{_own(store): number for store, number in others.items()}}
        for store, number in pairs.items():
            store._copy_indexes(number)
        with self._transaction():
            self._execute(
                f"CREATE TABLE IF NOT EXISTS {SERVED} (view TEXT PRIMARY KEY, version INTEGER NOT NULL)"
            )
            for store, number in pairs.items():
                self._serve(store.definition, number)
        for store in pairs:
            store.close()

    def _serve(self, definition: Definition, version: int) -> None:
        name = _quoted(definition.name)
        self._execute(f"DROP VIEW IF EXISTS {name}")
        self._execute(f"CREATE VIEW {name} AS SELECT * FROM {_quoted(definition.physical(version))}")
        self._execute(
            f"INSERT INTO {SERVED} (view, version) VALUES (?, ?) "
            "ON CONFLICT (view) DO UPDATE SET version = excluded.version",
            (definition.name, version),
        )

    def _copy_indexes(self, version: int) -> None:
        """Those that users created on the served version. Names of indexes are unique in a database of SQLite, so they
        end with the version."""
        served = self.served()
        if served is None or served == version:
            return
        table = self.definition.physical(version)
        rows = self._execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
            (self.definition.physical(served),),
        ).fetchall()
        for name, statement in rows:
            found = _INDEX.fullmatch(statement)
            if found is None:
                raise BadView(f"index {name} cannot be copied: {statement}", hint=f"DROP INDEX {name}")
            copy = f"{_VERSION_SUFFIX.sub('', name)}__{version}"
            try:
                self._connection.execute(
                    f"CREATE {found['unique'] or ''}INDEX IF NOT EXISTS {_quoted(copy)} "
                    f"ON {_quoted(table)} {found['columns']}"
                )
            except (sqlite3.OperationalError, sqlite3.IntegrityError) as error:
                if "locked" in str(error) or "full" in str(error):
                    raise ViewUnavailable(f"index {name}: {error}", hint="try again") from error
                raise BadView(
                    f"the new version of view {self.definition.name} cannot have the index {name}: {error}",
                    hint=f"DROP INDEX {_quoted(name)} in {self.path}, or keep the columns that it needs",
                ) from error

    # Rows

    def count(self, version: int) -> int:
        return int(self._execute(f"SELECT count(*) FROM {self._table(version)}").fetchone()[0])

    def sample(self, version: int, limit: int) -> list[dict[str, Any]]:
        return list(self._rows(f"SELECT * FROM {self._table(version)} ORDER BY random() LIMIT ?", (limit,)))

    def find(self, version: int, keys: Sequence[Row]) -> list[dict[str, Any] | None]:
        is_key = " AND ".join(f"{_quoted(name)} = ?" for name in self.definition.key)
        statement = f"SELECT * FROM {self._table(version)} WHERE {is_key}"
        return [
            next(self._rows(statement, [key[name] for name in self.definition.key]), None) for key in keys
        ]

    def reader(self, version: int) -> Reader:
        from headrace.views.reading.sqlite import SqliteReader

        return SqliteReader(self.path, self.definition, version)

    def _rows(self, statement: str, values: Sequence[Any]) -> Iterator[dict[str, Any]]:
        cursor = self._execute(statement, values)
        names = [column[0] for column in cursor.description]
        return (dict(zip(names, row, strict=True)) for row in cursor)

    def _table(self, version: int) -> str:
        return _quoted(self.definition.physical(version))

    # The database

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            with self._errors():
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._opened = sqlite3.connect(
                    self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
                )
                self._opened.execute("PRAGMA journal_mode = WAL")
                self._opened.execute("PRAGMA synchronous = FULL")
        return self._opened

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        with self._errors():
            return self._connection.execute(statement, values)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")

    def _has(self, table: str) -> bool:
        found = self._execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (table,))
        return found.fetchone() is not None

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.OperationalError) as error:
            raise ViewUnavailable(
                f"view {self.definition.name}: SQLite cannot use {self.path}: {error}",
                hint="check that the file is writable, on a disk with space, and in no long transaction",
            ) from error
        except sqlite3.DatabaseError as error:
            raise BadView(
                f"view {self.definition.name}: {self.path}: {error}",
                hint="it may not be a database of SQLite, or be damaged; --at names another file",
            ) from error

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _path(at: str, data_dir: Path) -> Path:
    if "://" in at and not at.startswith("sqlite://"):
        raise BadView(f"{at.split('://')[0]}:// is not a file of SQLite", hint="--at FILE, or another --to")
    return Path(at.removeprefix("sqlite:///")).absolute() if at else data_dir / VIEWS_FILE


def _own(store: Store) -> SqliteViews:
    assert isinstance(store, SqliteViews), "stores of one group are of one kind"
    return store


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
