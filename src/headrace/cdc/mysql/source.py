"""`MysqlSource`: one capture of a MySQL or MariaDB database, as the contract of `headrace.cdc.source` wants it.

It creates nothing in the database. The server keeps its log for a time that its settings decide, not for captures.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

import pymysql

from headrace.cdc.change import Event, Position
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.mysql.catalog import CatalogTable, Path, captured_tables
from headrace.cdc.mysql.connection import Connection, parse_address, translated
from headrace.cdc.mysql.initial import begun_position, read_tables
from headrace.cdc.mysql.live import Live
from headrace.cdc.mysql.place import log_bytes_after, log_end, place
from headrace.cdc.mysql.replication import Replication, server_id, trial_server_id
from headrace.cdc.mysql.session import Session
from headrace.cdc.mysql.setup import checked_tables
from headrace.cdc.mysql.snapshot import begin_read
from headrace.cdc.snapshot_queue import SnapshotQueue
from headrace.cdc.source import SnapshotProgress
from headrace.clock import Clock, SystemClock


class MysqlSource:
    def __init__(
        self, name: str, address: str, tables: Sequence[str] = ("*",), *, clock: Clock | None = None
    ) -> None:
        self._name = name
        self._address = address
        self._patterns = tuple(tables)
        self._clock = clock or SystemClock()
        self._session: Session | None = None
        self._reader: Connection | None = None
        self._live: Live | None = None
        self._queue = SnapshotQueue()
        self._requested_early: dict[str, Path] = {}
        """for the stream, which has not begun; by name"""
        self._confirmed: Position | None = None
        self._runs = 0

    def check(self) -> list[str]:
        with translated(self._address), Connection(self._address) as connection:
            tables = self._checked(connection)
            self._check_log(connection)
        return [table.label for table in tables]

    def _check_log(self, connection: Connection) -> None:
        """Asking for the log is the only sure way to learn whether the user may read it. As another replica: the server
        would end the stream of a capture that runs, here or in another process."""
        end = log_end(connection)
        replication = Replication(
            self._address,
            server_id=trial_server_id(),
            file=end.place.file,
            position=end.place.position,
            gtid=end.gtid,
        )
        try:
            replication.read()
        finally:
            replication.close()

    def _checked(self, connection: Connection) -> list[CatalogTable]:
        return checked_tables(connection, self._address, server_id(self._name, self._address), self._patterns)

    def _replication(self, position: Position) -> Replication:
        return Replication(
            self._address,
            server_id=server_id(self._name, self._address),
            file=position["file"],
            position=position["pos"],
            gtid=position.get("gtid", ""),
        )

    def events(self, position: Position | None, *, once: bool = False) -> Generator[Event | None, None, None]:
        self.close()
        self._runs += 1
        run = self._runs
        with translated(self._address):
            try:
                session = self._session = Session(self._name, self._address, self._patterns)
                tables = self._checked(session.control)
                if position is None:
                    position = yield from self._initial(session, tables)
                else:
                    position = self._continue(position, tables)
                early, self._requested_early = self._requested_early, {}
                self._live = Live(
                    session, self._replication(position), position, self._queue, self._clock, list(early)
                )
                yield from self._live.events(once=once)
            finally:
                # A later call of `events` has connections of its own.
                if run == self._runs:
                    self.close()

    def _initial(
        self, session: Session, tables: Sequence[CatalogTable]
    ) -> Generator[Event | None, None, Position]:
        self._queue = SnapshotQueue()
        self._queue.add([table.path for table in tables])
        reader = self._reader = Connection(self._address, is_raw=True)
        begun = begin_read(reader, session.control, [table.path for table in tables])
        # The columns of now: if they were altered since, the server rejects the read, and the runner tries again.
        tables = self._checked(session.control)
        yield from read_tables(reader, tables, self._queue, begun, self._clock)
        return begun_position(begun, tables)

    def _continue(self, position: Position, tables: Sequence[CatalogTable]) -> Position:
        """Tables that were not captured before are read. If they were created since, the stream has their rows too."""
        self._queue = SnapshotQueue(position.get("snapshot"))
        known = [tuple(path) for path in position["tables"]]
        added = [table.path for table in tables if table.path not in known]
        self._queue.add([path for path in added if path not in self._queue.tables])
        self._queue.add(list(self._requested_early.values()))
        return {**position, "tables": [list(table.path) for table in tables]}

    def confirm(self, position: Position) -> None:
        """Nothing to do in the database: the server does not wait for captures."""
        self._confirmed = position

    def snapshot(self, tables: Sequence[str]) -> None:
        with translated(self._address), self._connection() as connection:
            database = parse_address(self._address).database
            captured = {
                table.label: table.path for table in captured_tables(connection, database, self._patterns)
            }
        unknown = [name for name in tables if name not in captured]
        if unknown:
            raise BadCapture(
                f"table {unknown[0]} is not captured", hint=f"choose one of {', '.join(captured)}"
            )
        paths = [captured[name] for name in tables]
        if self._live is not None:
            self._live.request(paths, tables)
            return
        self._requested_early |= dict(zip(tables, paths, strict=True))
        if self._session is not None:
            self._queue.add(paths)

    def progress(self) -> list[SnapshotProgress]:
        return self._queue.progress()

    def lag_bytes(self) -> int | None:
        if self._confirmed is None:
            return None
        at = place(self._confirmed["file"], self._confirmed["pos"])
        try:
            with self._connection() as connection:
                return max(0, log_bytes_after(connection, at))
        except (BadCapture, SourceUnavailable, pymysql.Error, OSError):
            return None

    def remove(self) -> None:
        """The source creates nothing in the database."""
        self.close()

    def close(self) -> None:
        for part in (self._live, self._reader, self._session):
            if part is not None:
                part.close()
        self._live = self._reader = self._session = None

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """That of the run, or one for this call."""
        if self._session is not None:
            yield self._session.control
            return
        with Connection(self._address) as connection:
            yield connection
