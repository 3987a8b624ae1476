"""Which tables a snapshot has still to read, and how far the first of them is.

It is a part of the position: `{"tables": [[schema, name], …], "key": […], "rows": N}`. Of the first table, rows up to
`key` have been yielded. A key is kept as the texts of its source, so that the next chunk can begin after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.cdc.source import SnapshotProgress

Path = tuple[str, str]
Key = Sequence[str | None]


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
    def rows_read(self) -> int:
        """of the first table"""
        return self._rows

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
