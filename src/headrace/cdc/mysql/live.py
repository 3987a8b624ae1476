"""The running stream, and the chunks of snapshots beside it.

A chunk is read in a transaction whose place in the log is known. It is held until the stream is at that place: there
its rows are what the changes before have led to, and the changes after it continue from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pymysql
from msgspec import Struct

from headrace.cdc.change import Change, Committed, Event, Op, Position, Table
from headrace.cdc.errors import SourceUnavailable
from headrace.cdc.mysql.binlog import Heartbeat
from headrace.cdc.mysql.catalog import Path, table_by_path
from headrace.cdc.mysql.connection import Connection, code_of
from headrace.cdc.mysql.described import table_of
from headrace.cdc.mysql.initial import snapshot_source
from headrace.cdc.mysql.place import Place, log_end
from headrace.cdc.mysql.replication import Replication
from headrace.cdc.mysql.session import Session
from headrace.cdc.mysql.snapshot import ChunkRows, begin_read, read_window
from headrace.cdc.mysql.stream import Stream
from headrace.cdc.snapshot_queue import Key, SnapshotQueue
from headrace.clock import Clock

POSITION_S = 10.0
"""A quiet table in a busy database: so often the position follows the log, and the next start reads from there."""

CHECK_S = 1.0
"""between two looks whether an idle stream is at the end of the log"""

RETRY_S = 0.1
# Deadlock or a lock that was not granted; the table was altered or dropped since it was described.
_READ_AGAIN = (1205, 1213, 1412, 1054, 1146)


class Window(Struct, frozen=True, kw_only=True):
    """A chunk that waits for the stream. Without rows, the table is complete."""

    place: Place
    table: Table
    rows: list[tuple[Key, dict[str, object]]]
    is_last: bool


class Live:
    def __init__(
        self,
        session: Session,
        replication: Replication,
        position: Position,
        queue: SnapshotQueue,
        clock: Clock,
        requested: Sequence[str] = (),
    ) -> None:
        """`requested` are the names of tables that the queue has because of a request."""
        self._session = session
        self._replication = replication
        self._queue = queue
        self._clock = clock
        self.stream = Stream(session, {**position, "snapshot": queue.state()}, self.request)
        self._requested = list(requested)
        self._window: Window | None = None
        self._window_at_s = 0.0
        self._reader: Connection | None = None
        self._expected: Place | None = None
        self._is_suspect = False
        self._check_at_s = 0.0
        self._yielded_s = clock.monotonic_s()
        self._yielded_place = self.stream.place

    def request(self, tables: Sequence[Path], names: Sequence[str] = ()) -> None:
        """Read these tables. One that is held is read again: it may have been replaced. `names` are announced when a
        position holds them."""
        self._requested += names
        if self._window is not None and self._window.table.path in tables:
            self._window = None
            self._queue.finish_table()
        self._queue.add(tables)
        self.stream.snapshot = self._queue.state()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self._replication.close()

    def events(self, *, once: bool) -> Iterator[Event | None]:
        end = log_end(self._session.control).place if once else None
        stream = self.stream
        while True:
            if stream.is_between_transactions and stream.is_placed:
                if self._requested and not stream.is_skipping:
                    yield self._hold_requests()
                if self._window is None and self._is_window_due():
                    self._open_window()
                if self._window is not None and not self._window.place.is_behind(stream.place):
                    yield from self._close_window()
                    continue
                if end is not None and self._queue.current is None and not end.is_behind(stream.place):
                    return
            event = self._replication.read()
            for each in stream.apply(event):
                self._note()
                yield each
            if isinstance(event.message, Heartbeat):
                self._check_place()
                yield self._quiet()

    def _hold_requests(self) -> Committed:
        requested = tuple(self._requested)
        self._requested.clear()
        self._note()
        return Committed(
            committed_ms=self._clock.now_ms(), position=self.stream.position(), requested=requested
        )

    def _note(self) -> None:
        self._yielded_s = self._clock.monotonic_s()
        self._yielded_place = self.stream.place

    def _quiet(self) -> Committed | None:
        """The end of the log for now. If other tables were changed, the position moves on."""
        stream = self.stream
        if (
            not stream.is_between_transactions
            or stream.place == self._yielded_place
            or self._clock.monotonic_s() - self._yielded_s < POSITION_S
        ):
            return None
        self._note()
        return Committed(committed_ms=self._clock.now_ms(), position=stream.position())

    def _check_place(self) -> None:
        """An idle stream is at the end of the log. After RESET MASTER a server sends heartbeats for a file that is not
        there any more, and nothing else."""
        now_s = self._clock.monotonic_s()
        if now_s < self._check_at_s or not self.stream.is_between_transactions:
            return
        self._check_at_s = now_s + CHECK_S
        at, end = self.stream.place, log_end(self._session.control).place
        # The stream may be ahead of what is committed for a moment: once is no proof.
        is_lost = at.is_behind(end) or (self._expected is not None and self._expected.is_behind(at))
        if is_lost and self._is_suspect:
            raise SourceUnavailable(
                f"the stream is at {at.file}:{at.position}, and the binary log ends at {end.file}:{end.position}",
                hint="the log was deleted or replaced (RESET MASTER)",
            )
        self._is_suspect, self._expected = is_lost, end

    def _is_window_due(self) -> bool:
        return self._queue.current is not None and self._clock.monotonic_s() >= self._window_at_s

    def _open_window(self) -> None:
        """Read the next chunk. If that has to be repeated, the stream goes on meanwhile."""
        path = self._queue.current
        assert path is not None
        self._window_at_s = self._clock.monotonic_s() + RETRY_S
        if self._reader is None or not self._reader.is_open:
            self._reader = Connection(self._session.address, is_raw=True)
        try:
            window = self._read_chunk(self._reader, path)
        except pymysql.Error as error:
            if code_of(error) not in _READ_AGAIN:
                raise
            window = None
        finally:
            if self._reader.is_open:
                self._reader.execute("ROLLBACK")
        if window is not None:
            self._window, self._window_at_s = window, 0.0

    def _read_chunk(self, reader: Connection, path: Path) -> Window | None:
        """None if the stream has yielded a change that is not visible yet, or the table has just been altered."""
        known = table_by_path(self._session.control, path)
        if known is None or not known.key:
            empty = Table(path=path, columns=(), key=())
            return Window(place=self.stream.place, table=empty, rows=[], is_last=True)
        place = begin_read(reader, self._session.control, [path]).place
        # The columns of now: if they were altered after the transaction has begun, the server rejects the read.
        table = table_by_path(self._session.control, path)
        if table is None or self.stream.place.is_behind(place):
            return None
        self._queue.expect(table.rows_total)
        rows, is_last = read_window(reader, ChunkRows(table), self._queue.after)
        described = table_of(table.path, table.columns, table.key)
        return Window(place=place, table=described, rows=rows, is_last=is_last)

    def _close_window(self) -> Iterator[Event]:
        window = self._window
        assert window is not None
        self._window = None
        read_ms = self._clock.now_ms()
        source = snapshot_source((window.table.path[0], window.table.path[1]), self.stream.position())
        for key, row in window.rows:
            self._queue.read(key, 1)
            self.stream.snapshot = self._queue.state()
            yield Change(
                table=window.table,
                op=Op.READ,
                after=row,
                committed_ms=read_ms,
                source=source,
                position=self.stream.position(),
            )
        if window.is_last:
            self._queue.finish_table()
        self.stream.snapshot = self._queue.state()
        self._note()
        yield Committed(committed_ms=read_ms, position=self.stream.position())
