"""`PostgresSource`: one capture of a PostgreSQL database, as the contract of `headrace.cdc.source` wants it.

The slot's name is the capture's. A position is only valid with its slot: `confirm` a position when it is stored, and
not before, because a capture that continues before what was confirmed is rejected.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress

import psycopg

from headrace.cdc.change import BulkEvent, ChangedRows, Event, Position, ReadRows
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.postgres import setup, slot
from headrace.cdc.postgres.catalog import CatalogTable, captured_tables
from headrace.cdc.postgres.connection import Connection, open_connection, translated
from headrace.cdc.postgres.initial import create_slot, read_tables, snapshot_connection
from headrace.cdc.postgres.live import Live
from headrace.cdc.postgres.replication import ReplicationConnection
from headrace.cdc.postgres.session import Session
from headrace.cdc.snapshot_queue import Path, SnapshotQueue
from headrace.cdc.source import SnapshotProgress
from headrace.clock import Clock, SystemClock

POLL_S = 0.1
REMOVE_TIMEOUT_S = 5.0
READERS = 2
"""connections that read a table at the same time. More of them read faster on a machine with more cores"""
HEARTBEAT_S = 10.0
"""A quiet table in a busy database must not keep the server from discarding its log."""


class PostgresSource:
    def __init__(
        self,
        name: str,
        address: str,
        tables: Sequence[str] = ("*.*",),
        *,
        heartbeat_s: float = HEARTBEAT_S,
        reselect: bool = True,
        by_columns: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """With `reselect`, changes are `whole`: values that the log does not repeat are read from the table. With
        `by_columns`, `bulk_events` has the changes of a backlog in blocks."""
        self._name = slot.object_name(name)
        self._address = address
        self._patterns = tuple(tables)
        self._heartbeat_s = heartbeat_s
        self._reselect = reselect
        self._by_columns = by_columns
        self._clock = clock or SystemClock()
        self._session: Session | None = None
        self._replication: ReplicationConnection | None = None
        self._readers: Sequence[Connection] = ()
        self._live: Live | None = None
        self._queue = SnapshotQueue()
        self._confirmed = 0
        self._requested: list[Path] = []
        self._requested_early: dict[str, Path] = {}
        """for the stream, which has not begun; by name"""
        self._requested_lsn = 0
        self._position_lsn = 0
        self._runs = 0

    def check(self) -> list[str]:
        with translated(self._address), open_connection(self._address) as connection:
            tables = setup.checked_tables(connection, self._name, self._patterns)
            # Opening it is the only sure way to learn whether the user may: some services grant it by other means.
            ReplicationConnection(self._address).close()
        return [table.label for table in tables]

    def events(self, position: Position | None, *, once: bool = False) -> Generator[Event | None, None, None]:
        with closing(self._events(position, once=once, by_columns=False)) as events:
            for event in events:
                assert not isinstance(event, ChangedRows)
                if isinstance(event, ReadRows):
                    yield from event.changes()
                else:
                    yield event

    def bulk_events(
        self, position: Position | None, *, once: bool = False
    ) -> Generator[BulkEvent | None, None, None]:
        return self._events(position, once=once, by_columns=self._by_columns)

    def _events(
        self, position: Position | None, *, once: bool, by_columns: bool
    ) -> Generator[BulkEvent | None, None, None]:
        self.close()
        self._runs += 1
        run = self._runs
        with translated(self._address):
            try:
                session = self._session = Session(self._address, self._name, self._patterns)
                tables = setup.checked_tables(session.control, self._name, self._patterns)
                self._replication = ReplicationConnection(self._address)
                if position is None:
                    position = yield from self._initial(session, tables, self._replication)
                else:
                    self._continue(session, tables, position)
                early, self._requested_early = self._requested_early, {}
                self._live = Live(
                    session,
                    self._replication,
                    position,
                    self._queue,
                    self._clock,
                    self._heartbeat_s,
                    self._find_tables,
                    list(early),
                    reselect=self._reselect,
                )
                self._live.confirm(self._confirmed)
                yield from self._live.events(once=once, by_columns=by_columns)
            except GeneratorExit:
                raise  # `confirm` may still follow: `close` sends it
            except BaseException:
                # A later call of `events` has connections of its own.
                if run == self._runs:
                    self.close()
                raise

    def _initial(
        self, session: Session, tables: Sequence[CatalogTable], replication: ReplicationConnection
    ) -> Generator[Event | ReadRows | None, None, Position]:
        """Begin with nothing: a slot of an earlier attempt is of no use, because its snapshot is gone."""
        slot.drop_slot(session.control, self._name)
        slot.publish(session.control, self._name, tables)
        slot.request_snapshot(session.control, self._name, ())
        self._confirmed = 0
        self._requested = []
        self._queue = SnapshotQueue()
        self._queue.add([table.path for table in tables])
        lsn, snapshot = yield from create_slot(replication, self._name)
        self._readers = [snapshot_connection(self._address, snapshot, tables) for _ in range(READERS)]
        self._position_lsn = lsn
        yield from read_tables(session, self._readers, tables, self._queue, lsn, self._clock)
        return {"lsn": lsn}

    def _continue(self, session: Session, tables: Sequence[CatalogTable], position: Position) -> None:
        slot.require_slot(session.control, self._name, lsn=position["lsn"])
        if slot.published_tables(session.control, self._name) is None:
            raise BadCapture(
                f"publication {self._name} was dropped: changes since then are unknown", hint=slot.AGAIN_HINT
            )
        self._confirmed = 0
        self._position_lsn = position["lsn"]
        self._queue = SnapshotQueue(position.get("snapshot"))
        requested = slot.requested_snapshot(session.control, self._name)
        with session.control.transaction():
            added = slot.publish(session.control, self._name, tables)
            self._requested = [*requested, *(path for path in added if path not in requested)]
            if added:
                slot.request_snapshot(session.control, self._name, self._requested)
        self._queue.add([path for path in self._requested if path not in self._queue.tables])
        self._queue.add(list(self._requested_early.values()))
        self._requested_lsn = position["lsn"]

    def _find_tables(self) -> None:
        """Capture tables that were created since. What cannot be captured is rejected by the next start."""
        assert self._session is not None
        assert self._live is not None
        control = self._session.control
        published = slot.published_tables(control, self._name) or set()
        captured = captured_tables(control, self._patterns)
        tables = [table for table in captured if table.path in published or setup.is_capturable(table)]
        if {table.path for table in tables} <= published:
            return
        with suppress(psycopg.errors.InsufficientPrivilege):
            with control.transaction():
                added = slot.publish(control, self._name, tables)
                self._requested = [*self._requested, *added]
                slot.request_snapshot(control, self._name, self._requested)
            self._requested_lsn = self._live.stream.lsn
            self._live.request(added, are_new=True)

    def confirm(self, position: Position) -> None:
        self._confirmed = max(self._confirmed, position["lsn"])
        if self._live is not None:
            self._live.confirm(self._confirmed)
        if self._requested and self._session is not None and self._holds_request(position):
            with translated(self._address):
                slot.request_snapshot(self._session.control, self._name, ())
            self._requested = []

    def _holds_request(self, position: Position) -> bool:
        """Whether a capture that continues from the position reads the requested tables, or has read them."""
        listed = [tuple(path) for path in (position.get("snapshot") or {}).get("tables", ())]
        return position["lsn"] > self._requested_lsn or all(path in listed for path in self._requested)

    def snapshot(self, tables: Sequence[str]) -> None:
        with translated(self._address), self._connection() as connection:
            captured = {table.label: table.path for table in captured_tables(connection, self._patterns)}
            unknown = [name for name in tables if name not in captured]
            if unknown:
                raise BadCapture(
                    f"table {unknown[0]} is not captured", hint=f"choose one of {', '.join(captured)}"
                )
            paths = [captured[name] for name in tables]
            if self._live is None:
                self._requested_early |= dict(zip(tables, paths, strict=True))
            if slot.published_tables(connection, self._name) is None:
                return  # nothing was read yet: the initial snapshot reads every table
            requested = slot.requested_snapshot(connection, self._name)
            requested += [path for path in paths if path not in requested]
            slot.request_snapshot(connection, self._name, requested)
        if self._session is not None:
            self._requested = requested
            self._requested_lsn = self._position_lsn if self._live is None else self._live.stream.lsn
            if self._live is None:
                self._queue.add(paths)
            else:
                self._live.request(paths, tables)

    def progress(self) -> list[SnapshotProgress]:
        return self._queue.progress()

    def lag_bytes(self) -> int | None:
        try:
            with translated(self._address), self._connection() as connection:
                row = connection.execute(
                    "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::int8"
                    " FROM pg_replication_slots WHERE slot_name = %s",
                    [self._name],
                ).fetchone()
        except (BadCapture, SourceUnavailable):
            return None
        return max(0, row[0]) if row is not None and row[0] is not None else None

    def remove(self) -> None:
        self.close()
        with translated(self._address), open_connection(self._address) as connection:
            # The server needs a moment to notice that the stream was closed.
            deadline_s = self._clock.monotonic_s() + REMOVE_TIMEOUT_S
            while True:
                try:
                    slot.drop_slot(connection, self._name)
                    break
                except SourceUnavailable:
                    if self._clock.monotonic_s() > deadline_s:
                        raise
                    time.sleep(POLL_S)
            slot.drop_publication(connection, self._name)

    def close(self) -> None:
        for part in (self._live, self._replication, *self._readers, self._session):
            if part is not None:
                part.close()
        self._live = self._replication = self._session = None
        self._readers = ()

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """That of the run, or one for this call."""
        if self._session is not None:
            yield self._session.control
            return
        with open_connection(self._address) as connection:
            yield connection
