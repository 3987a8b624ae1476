"""A table in a SQLite file. A deleted row stays in free pages and in the write-ahead log until both are rewritten."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from headrace.erasure.errors import BadErasure, ErasureInterrupted
from headrace.erasure.subject import Subject

BUSY_TIMEOUT_S = 60.0
"""A job that writes the same file takes turns."""


class SqliteTable:
    def __init__(self, path: Path, table: str, column: str) -> None:
        self.name = f"sqlite {path} {table}.{column}"
        self._path = path
        self._table = _quoted(table)
        self._column = column
        self._condition = f"CAST({_quoted(column)} AS TEXT) = ?"

    def remaining(self, subject: Subject) -> int:
        """Rows; and 1 if the write-ahead log still has old pages, which only a checkpoint removes."""
        with self._open() as connection:
            (rows,) = connection.execute(
                f"SELECT count(*) FROM {self._table} WHERE {self._condition}", (subject.column(self._column),)
            ).fetchone()
        wal = self._path.with_name(f"{self._path.name}-wal")
        has_old_pages = (
            not rows and wal.exists() and subject.column(self._column).encode() in wal.read_bytes()
        )
        return int(rows) + has_old_pages

    def erase(self, subject: Subject) -> None:
        with self._open() as connection:
            # Deleted content is overwritten with zeros.
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute(
                f"DELETE FROM {self._table} WHERE {self._condition}", (subject.column(self._column),)
            )
            # Pages that an earlier deletion, without secure_delete, left in the file.
            connection.execute("VACUUM")
            (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if is_busy:
            raise ErasureInterrupted(
                f"{self._path}: a reader keeps old pages in the write-ahead log",
                hint="close it, then `headrace erase continue`",
            )

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        if not self._path.exists():
            raise BadErasure(f"there is no file {self._path}", hint="name the SQLite file of the table")
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        try:
            yield connection
        except sqlite3.OperationalError as error:
            kind = ErasureInterrupted if "locked" in str(error) or "busy" in str(error) else BadErasure
            raise kind(f"{self.name}: {error}", hint="the table and its column must exist") from error
        finally:
            connection.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
