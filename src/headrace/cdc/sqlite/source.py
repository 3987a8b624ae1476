"""A SQLite file as a source of changes.

A position is the id of the last change, the last version of a table that was followed, and how far the snapshot is: the
table that is read, its last key, and the tables that wait. Ids are in commit order, because SQLite has one writer at a
time. A version that is not followed by the position has to be read: its triggers may be younger than some of its rows.
"""

from __future__ import annotations

import base64
import functools
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from headrace.cdc.change import Change, Committed, Event, Op, Position, Row, Table
from headrace.cdc.errors import BadCapture
from headrace.cdc.source import SnapshotProgress
from headrace.cdc.sqlite.changelog import Changelog, RecordedChange
from headrace.clock import Clock, SystemClock
from headrace.names import did_you_mean

POLL_S = 0.02
"""Between two looks at the file, which read a counter. A commit is seen within this time."""

READ_S_MAX = 0.2
"""Without a write-ahead log, writers wait for readers: a capture lets them through after this time."""

CONFIRM_S_MIN = 1.0
"""Between two deletions of changes, each of which needs the file's only write lock."""


class _State(Struct, frozen=True, kw_only=True):
    """A position while it is worked with."""

    change: int = 0
    version: int = 0
    table: str | None = None
    after: tuple[Any, ...] | None = None
    waiting: tuple[str, ...] = ()

    @classmethod
    def read(cls, position: Position, version_now: int) -> _State:
        snapshot = position.get("snapshot") or {}
        after = snapshot.get("after")
        return cls(
            change=position["change"],
            version=position.get("version", version_now),
            table=snapshot.get("table"),
            after=None if after is None else tuple(_from_json(each) for each in after),
            waiting=tuple(snapshot.get("waiting", ())),
        )

    def position(self) -> Position:
        position = {"change": self.change, "version": self.version}
        if self.table is None and not self.waiting:
            return position
        after = None if self.after is None else [_to_json(each) for each in self.after]
        return {
            **position,
            "snapshot": {"table": self.table, "after": after, "waiting": list(self.waiting)},
        }


class SqliteSource:
    """`tables` are patterns of names, such as `*` or `order*`."""

    def __init__(
        self, name: str, path: Path, tables: Sequence[str] = ("*",), *, clock: Clock | None = None
    ) -> None:
        self._path = path
        self._changelog = Changelog(name, path, tables)
        self._clock = clock or SystemClock()
        self._requested: list[str] = []
        self._progress: dict[str, SnapshotProgress] = {}
        self._confirmed = self._deleted = 0
        self._deleted_at_s = 0.0
        self._has_more = False

    def check(self) -> list[str]:
        found = [each.name for each in self._changelog.matching()]
        if not found:
            raise BadCapture(
                f"{self._path} has no table that matches", hint="--tables sets patterns of names, such as '*'"
            )
        return found

    def events(self, position: Position | None, *, once: bool = False) -> Generator[Event | None, None, None]:
        if position is None:
            self.check()
        version_before = self._changelog.last_version()
        self._changelog.follow_schema()
        # A new capture starts after the changes that its triggers may have recorded already: the snapshot has them.
        last_id = self._changelog.last_id()
        state = _State(change=last_id) if position is None else _State.read(position, version_before)
        if last_id < state.change or self._changelog.last_version() < state.version:
            raise BadCapture(
                f"the recorded changes of this capture in {self._path} were dropped: changes since then are unknown",
                hint="remove the capture and add it again: it starts with a new snapshot",
            )
        state = self._followed(state)
        seen = None
        while True:
            self._delete_confirmed()
            version = self._changelog.data_version()
            if seen is not None and version[1] != seen[1]:
                self._changelog.follow_schema()
                state = self._followed(state)
                version = self._changelog.data_version()
            if self._requested:
                requested = tuple(dict.fromkeys(self._requested))
                self._requested.clear()
                state = _request(state, requested)
                yield Committed(
                    committed_ms=self._clock.now_ms(), position=state.position(), requested=requested
                )
            has_snapshot = state.table is not None or bool(state.waiting)
            if version != seen or has_snapshot or self._has_more:
                seen = version
                self._has_more = False
                for event, state_after in self._read(state):
                    state = state_after
                    yield event
                if self._has_more:
                    yield None
            elif once:
                return
            else:
                yield None
                time.sleep(POLL_S)

    def _followed(self, state: _State) -> _State:
        """The state with the tables to read that are new or have changed."""
        changed = self._changelog.installed_after(state.version)
        return replace(_request(state, changed), version=self._changelog.last_version())

    def confirm(self, position: Position) -> None:
        self._confirmed = max(self._confirmed, position["change"])

    def snapshot(self, tables: Sequence[str]) -> None:
        known = [each.name for each in self._changelog.matching()]
        for name in tables:
            if name not in known:
                raise BadCapture(
                    f"table {name} is not captured",
                    hint=did_you_mean(name, known) or f"choose from {', '.join(known)}",
                )
        self._requested += tables

    def progress(self) -> list[SnapshotProgress]:
        return list(self._progress.values())

    def lag_bytes(self) -> int | None:
        return None

    def remove(self) -> None:
        self._changelog.remove()

    def close(self) -> None:
        self._changelog.close()

    def _delete_confirmed(self) -> None:
        now_s = time.monotonic()
        if self._confirmed > self._deleted and now_s - self._deleted_at_s >= CONFIRM_S_MIN:
            self._changelog.delete(self._confirmed)
            self._deleted, self._deleted_at_s = self._confirmed, now_s

    def _read(self, state: _State) -> Iterator[tuple[Event, _State]]:
        """The changes so far, and then rows of the snapshot, all of one state of the file: a row that is read has all
        changes that were yielded before it."""
        until_s = float("inf") if self._changelog.is_wal else time.monotonic() + READ_S_MAX
        with self._changelog.reading():
            at_ms = None
            for recorded in self._changelog.changes(state.change):
                state, at_ms = replace(state, change=recorded.id), recorded.at_ms
                for change in _changes(recorded, self._source(recorded.table), state.position()):
                    yield change, state
                if time.monotonic() >= until_s:
                    self._has_more = True
                    return
            # At least one row is read, however long the changes took.
            is_first = True
            while (state.table is not None or state.waiting) and (is_first or time.monotonic() < until_s):
                is_first = False
                if state.table is None:
                    state = replace(state, table=state.waiting[0], after=None, waiting=state.waiting[1:])
                for event, state_after in self._rows(state, until_s):
                    state = state_after
                    yield event, state
            if at_ms is not None:
                yield Committed(committed_ms=at_ms, position=state.position()), state

    def _rows(self, state: _State, until_s: float) -> Iterator[tuple[Event, _State]]:
        assert state.table is not None
        name = state.table
        table = self._changelog.current_table(name)
        now_ms = self._clock.now_ms()
        if table is not None:
            progress = self._progress.get(name)
            if progress is None or state.after is None:
                progress = SnapshotProgress(table=name, rows_read=0, rows_total=self._changelog.count(name))
            for key, row in self._changelog.rows(table, state.after):
                state = replace(state, after=tuple(key))
                progress = replace(progress, rows_read=progress.rows_read + 1)
                self._progress[name] = progress
                yield self._read_row(table, row, now_ms, state), state
                if time.monotonic() >= until_s:
                    return
            self._progress[name] = replace(progress, is_done=True)
        state = replace(state, table=None, after=None)
        yield Committed(committed_ms=now_ms, position=state.position()), state

    def _read_row(self, table: Table, row: Row, now_ms: int, state: _State) -> Change:
        return Change(
            table=table,
            op=Op.READ,
            after=row,
            committed_ms=now_ms,
            source={**self._source(table), "snapshot": "true"},
            position=state.position(),
        )

    def _source(self, table: Table) -> Position:
        return {"db": self._path.name, "table": table.path[0]}


def _request(state: _State, tables: Sequence[str]) -> _State:
    """The state with these tables to read. A table that is being read starts again."""
    if not tables:
        return state
    running = () if state.table is None or state.table in tables else (state.table,)
    waiting = tuple(name for name in state.waiting if name not in tables)
    if running:
        return replace(state, waiting=(*waiting, *tables))
    return replace(state, table=None, after=None, waiting=(*waiting, *tables))


def _changes(recorded: RecordedChange, source: Position, position: Position) -> Iterator[Change]:
    """One change, or two if the key has changed: a delete of the old key and a create of the new one."""
    op = Op(recorded.op)
    before = None if op is Op.CREATE else recorded.before
    after = None if op is Op.DELETE else recorded.after
    key = recorded.table.key
    change = functools.partial(
        Change,
        table=recorded.table,
        committed_ms=recorded.at_ms,
        source={**source, "change": recorded.id},
    )
    is_moved = before is not None and after is not None and any(before[name] != after[name] for name in key)
    if is_moved:
        yield change(op=Op.DELETE, before=before, position=None)
        yield change(op=Op.CREATE, after=after, position=position)
    else:
        yield change(op=op, before=before, after=after, position=position)


def _to_json(value: Any) -> Any:
    return {"bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _from_json(value: Any) -> Any:
    return base64.b64decode(value["bytes"]) if isinstance(value, dict) else value
