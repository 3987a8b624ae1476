"""Rows of an incremental snapshot, between the moment they are read and the moment the stream has caught up with it.

A chunk of rows is read while the stream goes on. Then a watermark is written to the database's log. When the watermark
arrives in the stream, the rows are yielded, except those that a later transaction has changed: their change has been
yielded, and a row that is older than it must not follow.

*Later* means: not visible to the snapshot that the chunk was read in. A low watermark in the log would not do, because
PostgreSQL writes the commit of a transaction to the log before other transactions see it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from headrace.cdc.change import UNAVAILABLE, Change, Op, Table


class Visibility(Struct, frozen=True, kw_only=True):
    """Which transactions a snapshot sees: those before `end`, except those in progress. 64-bit transaction ids."""

    start: int
    """all transactions before it have ended"""
    end: int
    in_progress: frozenset[int]

    def sees(self, xid: int) -> bool:
        full = self.full(xid)
        return full < self.end and full not in self.in_progress

    def full(self, xid: int) -> int:
        """The 64-bit id of a 32-bit id of the stream: the one that is nearest to now."""
        half = 2**31
        return self.end - half + (xid - self.end + half) % 2**32


def parse_visibility(text: str) -> Visibility:
    """From the text of PostgreSQL's type pg_snapshot: `xmin:xmax:xip,xip`."""
    start, end, in_progress = text.split(":")
    return Visibility(
        start=int(start),
        end=int(end),
        in_progress=frozenset(int(xid) for xid in in_progress.split(",") if xid),
    )


class ReadRow(Struct, frozen=True, kw_only=True):
    key: Sequence[str | None]
    """as PostgreSQL's texts, from which the snapshot continues"""
    row: dict[str, Any]


class Window:
    """One chunk of at least one row that waits for its watermark."""

    def __init__(
        self,
        *,
        watermark: str,
        table: Table,
        visibility: Visibility,
        rows: Sequence[ReadRow],
        is_last: bool,
    ) -> None:
        self.watermark = watermark
        self.table = table
        self.is_last = is_last
        """no row follows this chunk in its table"""
        self.last_key = rows[-1].key
        self.rows_read = len(rows)
        self.is_stale = False
        """the table's columns have changed since: the chunk has to be read again"""
        self._visibility = visibility
        self._rows = {self._key(read.row): read for read in rows}

    @property
    def rows(self) -> list[ReadRow]:
        return list(self._rows.values())

    def apply(self, change: Change, xid: int) -> None:
        """A change that is in the stream before the watermark."""
        if change.table.path != self.table.path or self._visibility.sees(xid):
            return
        if change.op is Op.TRUNCATE:
            self._rows.clear()
            return
        if change.table.columns != self.table.columns:
            self.is_stale = True
            return
        row = change.before if change.after is None else change.after
        assert row is not None
        key = self._key(row)
        read = self._rows.pop(key, None)
        if read is not None and change.after is not None and UNAVAILABLE in change.after.values():
            # The change has not every value of the row, and this chunk may be the only place that has. Together they
            # are the row after the change.
            merged = {
                name: read.row[name] if value == UNAVAILABLE else value
                for name, value in change.after.items()
            }
            self._rows[key] = ReadRow(key=read.key, row=merged)

    def _key(self, row: Mapping[str, Any]) -> bytes:
        # A column of the key may be a list, which no dict takes.
        return msgspec.json.encode([row[name] for name in self.table.key])
