"""What a log says, in a form that can be queried: a private SQLite database.

It is built from the log whenever a partition is opened, and has nothing that the log does not have. SQLite keeps it in
memory up to its cache, and beyond that in a file that it deletes; so the number of events has no bound here.

A transaction of the database goes along with one of the broker: what a transaction decides is visible to its next
decision, and a rollback removes it.
"""

from __future__ import annotations

import sqlite3
from typing import Any

CACHE_KIB = 32 * 1024
"""Memory of one partition's database. What does not fit is in the file system's cache anyway."""

_POSITIONS = "CREATE TABLE positions (topic TEXT PRIMARY KEY, next_offset INT) WITHOUT ROWID;"


class LogDatabase:
    def __init__(self, schema: str) -> None:
        # "" is a temporary database. Threads take turns, with the lock of the log.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.executescript(schema + _POSITIONS)

    def close(self) -> None:
        self._database.close()

    def begin(self) -> None:
        self._database.execute("BEGIN")

    def commit(self) -> None:
        self._database.execute("COMMIT")

    def rollback(self) -> None:
        self._database.execute("ROLLBACK")

    def position(self, topic: str) -> int:
        """The offset of the next record that the database has not seen."""
        found = self._one("SELECT next_offset FROM positions WHERE topic = ?", topic)
        return found[0] if found else 0

    def set_position(self, topic: str, next_offset: int) -> None:
        self._database.execute("REPLACE INTO positions VALUES (?, ?)", (topic, next_offset))

    def _one(self, statement: str, *values: str | int) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._database.execute(statement, values).fetchone()
        return found
