"""Events of the binary log to changes, in commit order, each with the position after it.

A position is `{"file", "pos", "gtid", "tables"}`: the log up to there was yielded, and these tables were captured. In a
transaction, `group` names it and `done` is the number of its changes that were yielded; `file`, `pos` and `gtid` are
those of its beginning, because the server sends whole transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from headrace.cdc.change import Change, Committed, Event, Op, Position, Table
from headrace.cdc.errors import BadCapture
from headrace.cdc.mysql import gtid as gtids
from headrace.cdc.mysql.binlog import (
    Begin,
    Commit,
    Heartbeat,
    LogEvent,
    Prepared,
    Query,
    Rotate,
    Rows,
    TableMap,
    Unreadable,
)
from headrace.cdc.mysql.catalog import Path
from headrace.cdc.mysql.place import Place, place
from headrace.cdc.mysql.rows import read_rows
from headrace.cdc.mysql.session import Session
from headrace.cdc.mysql.statements import Effect, affected, first_word

_OPS = {"c": Op.CREATE, "u": Op.UPDATE, "d": Op.DELETE}
_FIRST_POSITION = 4
"""of an event in a file"""

AGAIN_HINT = "`headrace cdc remove` and `add` the capture, which starts with a new snapshot"


class Stream:
    def __init__(
        self, session: Session, position: Position, on_replaced: Callable[[Sequence[Path]], None]
    ) -> None:
        self._session = session
        self._on_replaced = on_replaced
        self.place: Place = place(position["file"], position["pos"])
        """after the last transaction, or before the one that is read"""
        self.is_placed = not position.get("gtid")
        """a server that was asked by id may have other files: its own place follows with its first event"""
        self.gtid: str = position.get("gtid", "")
        self.snapshot: dict[str, Any] | None = position.get("snapshot")
        self._tables: list[list[str]] = position["tables"]
        self._skip: int = position.get("done", 0)
        self._skip_group: str = position.get("group", "")
        self._file: str = position["file"]
        self._maps: dict[int, bytes] = {}
        self._group: str | None = None
        self._group_gtid = ""
        self._is_begun = False
        self._is_xa = False
        self._done = 0
        self._base: dict[str, Any] = {}

    @property
    def is_between_transactions(self) -> bool:
        return self._group is None

    @property
    def is_skipping(self) -> bool:
        """The rest of a transaction follows, whose first changes an earlier run has yielded."""
        return self._skip > 0

    def position(self) -> Position:
        """Between transactions, or of the beginning of the one that is read."""
        found: dict[str, Any] = {
            "file": self.place.file,
            "pos": self.place.position,
            "gtid": self.gtid,
            "tables": self._tables,
        }
        if self._skip and self._group is None:
            found |= {"group": self._skip_group, "done": self._skip}
        if self.snapshot is not None:
            found["snapshot"] = self.snapshot
        return found

    def apply(self, event: LogEvent) -> Iterator[Event]:
        message = event.message
        if isinstance(message, Rows):
            yield from self._rows(event, message)
        elif isinstance(message, TableMap):
            self._maps[message.table_id] = message.content
        elif isinstance(message, Begin):
            self._begin(event, message)
        elif isinstance(message, Commit | Prepared):
            yield from self._end(event)
        elif isinstance(message, Query):
            yield from self._query(event, message)
        elif isinstance(message, Rotate):
            self._rotate(event, message)
        elif isinstance(message, Heartbeat):
            if self.is_between_transactions:
                self._move(message.file, event.end)
        elif isinstance(message, Unreadable):
            raise BadCapture(
                f"the binary log has {message.what} at {self._file}:{event.start}, which cannot be captured",
                hint=AGAIN_HINT,
            )

    def _move(self, file: str, position: int) -> None:
        self.place = place(file, position)
        self.is_placed = True

    def _rotate(self, event: LogEvent, rotate: Rotate) -> None:
        """The server also begins with such an event, to name the file that it sends."""
        self._file = rotate.file
        self._maps.clear()
        if event.at_s and self.is_between_transactions:
            self._move(rotate.file, _FIRST_POSITION)

    def _begin(self, event: LogEvent, begin: Begin) -> None:
        self._move(self._file, event.start)
        self._group = begin.gtid or f"{self._file}:{event.start}"
        self._group_gtid = begin.gtid
        # A transaction of MySQL has a statement BEGIN; in MariaDB only a single statement has no commit.
        self._is_begun = bool(begin.gtid) and gtids.is_mariadb(begin.gtid) and not begin.is_standalone
        self._is_xa = begin.is_xa
        self._done = 0
        if self._group != self._skip_group:
            # The transaction that was in progress is the first one to be sent again, or does not exist any more.
            self._skip = 0
        self._base = {
            "file": self.place.file,
            "pos": self.place.position,
            "gtid": self.gtid,
            "tables": self._tables,
            "group": self._group,
        }

    def _end(self, event: LogEvent) -> Iterator[Committed]:
        group, has_changes = self._group, self._done > 0
        self._group = None
        self._skip = 0
        self._move(self._file, event.end)
        # Without ids from the beginning, the state would name a part of the transactions.
        if self._group_gtid and (self.gtid or gtids.is_mariadb(self._group_gtid)):
            self.gtid = gtids.after(self.gtid, self._group_gtid)
        if has_changes:
            yield Committed(transaction=group, committed_ms=event.at_s * 1_000, position=self.position())

    def _query(self, event: LogEvent, query: Query) -> Iterator[Event]:
        text = self._session.statement_text(query.statement, query.collation)
        word = first_word(text)
        if word == "BEGIN":
            self._is_begun = True
        elif word in ("COMMIT", "ROLLBACK") and len(text.split()) == 1:
            yield from self._end(event)
        elif word == "XA" and text.split()[1:2] == ["START"]:
            self._is_begun = self._is_xa = True
        else:
            yield from self._statement(event, text, query.database)
            if not self._is_begun:
                yield from self._end(event)

    def _statement(self, event: LogEvent, text: str, database: str) -> Iterator[Change]:
        replaced = []
        for each in affected(text, database):
            if each.effect is Effect.CHANGED_ROWS:
                if self._session.is_concerned(database, text):
                    raise BadCapture(
                        f"database {database} was changed in statement format at {self._file}:{event.start}:"
                        " which rows, the binary log does not have",
                        hint="set binlog_format = ROW in all sessions, then " + AGAIN_HINT,
                    )
                continue
            if not self._session.is_captured(each.path):
                continue
            table = self._session.table(each.path)
            self._session.forget(each.path)
            if each.effect is not Effect.ALTERED:
                yield from self._changes(
                    event, table, [(0, Op.TRUNCATE, None, None)], {"db": each.path[0], "table": each.path[1]}
                )
            if each.effect is Effect.REPLACED:
                replaced.append(each.path)
        if replaced:
            self._on_replaced(replaced)

    def _rows(self, event: LogEvent, rows: Rows) -> Iterator[Change]:
        content = self._maps[rows.table_id]
        described = self._session.described(content, event.at_s)
        if described is None:
            return
        if self._is_xa:
            raise BadCapture(
                f"table {described.table.name} was changed by an XA transaction at {self._file}:{event.start}:"
                " whether it was committed, the log says only later",
                hint="commit captured tables without XA, then " + AGAIN_HINT,
            )
        parts: list[tuple[int, Op, dict[str, Any] | None, dict[str, Any] | None]] = []
        pairs = read_rows(rows, described.names, described.readers, described.table.name)
        for number, (before, after) in enumerate(pairs):
            if before is not None and after is not None and described.is_key_changed(before, after):
                parts.append((number, Op.DELETE, before, None))
                parts.append((number, Op.CREATE, None, after))
            else:
                parts.append((number, _OPS[rows.op], before, after))
        yield from self._changes(event, described.table, parts, described.source)

    def _changes(
        self,
        event: LogEvent,
        table: Table,
        parts: Sequence[tuple[int, Op, dict[str, Any] | None, dict[str, Any] | None]],
        source: dict[str, Any],
    ) -> Iterator[Change]:
        where = {
            **source,
            "server_id": event.server_id,
            "gtid": self._group_gtid or None,
            "file": self._file,
            "pos": event.start,
        }
        for number, op, before, after in parts:
            self._done += 1
            if self._done <= self._skip:
                continue
            position = {**self._base, "done": self._done}
            if self.snapshot is not None:
                position["snapshot"] = self.snapshot
            yield Change(
                table=table,
                op=op,
                before=before,
                after=after,
                transaction=self._group,
                committed_ms=event.at_s * 1_000,
                source={**where, "row": number},
                position=position,
            )
