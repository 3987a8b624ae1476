"""Reading a version in a file of SQLite. Readers neither wait for the job that writes, nor does it wait for them."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from headrace.views.definition import Definition
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.query.kinds import Kind, kind_of
from headrace.views.query.sql import SQLITE
from headrace.views.reading.table import QUERY_TIMEOUT_S, TableReader

BUSY_TIMEOUT_S = 10.0
"""Readers wait only while the write-ahead log is reset, which takes milliseconds."""

_STEPS_PER_CHECK = 100_000
"""Of SQLite's virtual machine, some milliseconds, between two looks at the clock."""

_SCALE = re.compile(r".*\(\s*\d+\s*,\s*(\d+)\s*\)")


class SqliteReader(TableReader):
    dialect = SQLITE
    _begin = "BEGIN"

    def __init__(self, path: Path, definition: Definition, version: int) -> None:
        super().__init__(definition, version)
        self._path = path
        self._opened: sqlite3.Connection | None = None
        self._deadline_s = 0.0

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            if not self._path.exists():
                raise self._gone()
            connection = sqlite3.connect(
                f"{self._path.absolute().as_uri()}?mode=ro",
                uri=True,
                timeout=BUSY_TIMEOUT_S,
                isolation_level=None,
                check_same_thread=False,
            )
            connection.execute("PRAGMA case_sensitive_like = ON")  # as in other databases
            connection.set_progress_handler(lambda: time.monotonic() > self._deadline_s, _STEPS_PER_CHECK)
            self._opened = connection
        return self._opened

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        self._deadline_s = time.monotonic() + QUERY_TIMEOUT_S
        return self._connection.execute(statement, values)

    def _end(self) -> None:
        if self._opened is not None and self._opened.in_transaction:
            self._opened.execute("COMMIT")

    def _read_types(self) -> dict[str, str]:
        rows = self._execute("SELECT name, type FROM pragma_table_info(?)", (self._name,)).fetchall()
        return {name: kind.lower() for name, kind in rows}

    @staticmethod
    def _kind(declared: str) -> Kind:
        return kind_of(declared, timestamp=Kind.TIMESTAMP, real=Kind.DOUBLE)

    def _row(self, names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
        types = self.types()
        return {
            name: None if value is None else _converted(value, types.get(name, ""))
            for name, value in zip(names, values, strict=True)
        }

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                raise self._gone() from error
            if "interrupted" in str(error):
                raise ViewUnavailable(
                    f"view {self._definition.name}: the selection took longer than {QUERY_TIMEOUT_S} s",
                    hint="select by the key, or create an index on the columns of the condition",
                ) from error
            raise ViewUnavailable(
                f"view {self._definition.name}: SQLite can't read {self._path}: {error}",
                hint="check that the file is readable and on a local disk",
            ) from error
        except sqlite3.DatabaseError as error:
            raise BadView(
                f"view {self._definition.name}: {self._path}: {error}",
                hint="it may not be a database of SQLite, or be damaged",
            ) from error

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def _converted(value: Any, declared: str) -> Any:
    """The value that PostgreSQL would return. The `Table` sink stores these types as numbers and text."""
    try:
        match SqliteReader._kind(declared):
            case Kind.BOOLEAN:
                return bool(value)
            case Kind.DATE:
                return date.fromisoformat(value)
            case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
                return datetime.fromisoformat(value)
            case Kind.JSON:
                return json.loads(value)
            case Kind.DECIMAL:
                scale = _SCALE.fullmatch(declared)
                number = Decimal(str(value))
                return number.quantize(Decimal(1).scaleb(-int(scale[1]))) if scale else number
    except (ArithmeticError, TypeError, ValueError):
        pass  # another program wrote it: the value as it is
    return value
