"""The running stream: reading, feedback, heartbeats, and the windows of incremental snapshots.

The server may discard what feedback calls flushed. That is never more than what was confirmed.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import psycopg

from headrace.cdc.change import Change, ChangedRows, Committed, Event, Op, Position
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.postgres.catalog import table_by_path
from headrace.cdc.postgres.changed_columns import changed_rows
from headrace.cdc.postgres.connection import Connection, open_connection, translated
from headrace.cdc.postgres.pgoutput import Commit, LogicalMessage, decode
from headrace.cdc.postgres.replication import DATA_OFFSET, Keepalive, ReplicationConnection, parse
from headrace.cdc.postgres.reselect import Reselector
from headrace.cdc.postgres.session import Session
from headrace.cdc.postgres.slot import Slot, require_slot, slot_in_use, start_command
from headrace.cdc.postgres.snapshot import WINDOW_ROWS, chunk_statement, open_reader, read_window
from headrace.cdc.postgres.stream import Incomplete, Stream
from headrace.cdc.postgres.window import ReadRow, Window, parse_visibility
from headrace.cdc.snapshot_queue import Path, SnapshotQueue
from headrace.clock import Clock

POLL_S = 0.1
WAIT_S = 0.01
"""between two attempts to read large values: a commit is visible soon after it is in the log"""
FEEDBACK_INTERVAL_S = 5.0
TABLES_INTERVAL_S = 2.0
"""between two searches for new tables"""
RESPONSE_TIMEOUT_S = 60.0
"""The server decodes a large transaction of other tables without a sign of life."""
START_TIMEOUT_S = 5.0
"""for the server to notice that the connection before this one was closed"""
LOST_TIMEOUT_S = 1.0
BLOCK_MESSAGES_MIN = 1_000
"""that are worth the fixed costs of decoding them by columns"""
RECENT_TRANSACTIONS = 10_000
MESSAGE_PREFIX = "headrace"


class Live:
    def __init__(
        self,
        session: Session,
        replication: ReplicationConnection,
        position: Position,
        queue: SnapshotQueue,
        clock: Clock,
        heartbeat_s: float,
        find_tables: Callable[[], None],
        requested: Sequence[str] = (),
        *,
        reselect: bool = False,
    ) -> None:
        """`requested` are the names of tables that the queue has because of a request."""
        self._session = session
        self._replication = replication
        self._queue = queue
        self._clock = clock
        self._heartbeat_s = heartbeat_s
        self.stream = Stream({**position, "snapshot": queue.state()}, session.described_relation)
        self._requested = list(requested)
        self._window: Window | None = None
        self._is_watermark_reached = False
        self._end_message: str | None = None
        self._is_end_reached = False
        self._reader: Connection | None = None
        self._reselector = Reselector(session, clock, self._wait) if reselect else None
        self._recent: deque[int] = deque(maxlen=RECENT_TRANSACTIONS)
        self._confirmed = 0
        self._confirmed_sent = 0
        self._received = 0
        self._is_started = False
        self._find_tables = find_tables
        self._read_after = self._next_xid() if queue.current is not None else 0
        now_s = clock.monotonic_s()
        self._tables_s = now_s
        self._window_at_s = 0.0
        self._sent_s = now_s
        self._heartbeat_at_s = now_s
        self._asked_s: float | None = None

    def request(self, tables: Sequence[Path], names: Sequence[str] = (), *, are_new: bool = False) -> None:
        """The stream has no changes of a new table by transactions that were open when it was published. Its rows are
        read when they have ended. `names` are announced when a position holds them."""
        self._requested += names
        if are_new:
            self._read_after = self._next_xid()
        self._queue.add(tables)
        self.stream.snapshot = self._queue.state()

    def _next_xid(self) -> int:
        row = self._session.control.execute("SELECT pg_current_snapshot()::text").fetchone()
        assert row is not None
        return parse_visibility(row[0]).end

    def confirm(self, lsn: int) -> None:
        """Sent with the next feedback: a confirmation for each transaction would be a message for each."""
        self._confirmed = max(self._confirmed, lsn)

    def close(self) -> None:
        if self._is_started and self._confirmed > self._confirmed_sent:
            # Without it, the server sends more again after the next start, and the position skips it.
            with suppress(psycopg.Error):
                self._replication.feedback(received=self.stream.lsn, confirmed=self._confirmed)
        if self._reader is not None:
            self._reader.close()
        if self._reselector is not None:
            self._reselector.close()
        self._replication.close()

    def events(self, *, once: bool, by_columns: bool = False) -> Iterator[Event | ChangedRows | None]:
        """With `by_columns`, changes of a backlog are yielded in blocks."""
        events = self._events(once=once, by_columns=by_columns)
        if self._reselector is not None:
            yield from self._reselector.completed(events)
        else:
            for event in events:
                yield event.change if isinstance(event, Incomplete) else event

    def _events(self, *, once: bool, by_columns: bool) -> Iterator[Event | Incomplete | ChangedRows | None]:
        yield from self._start()
        if once:
            # Everything that was committed before this message comes before it.
            self._end_message = self._write_message()
        while not self._is_ended:
            yield from self._between_transactions()
            messages = self._read()
            if not messages:
                yield None
            elif by_columns:
                yield from self._in_blocks(messages)
            else:
                yield from self._one_by_one(messages)
            self._tick()

    def _between_transactions(self) -> Iterator[Event]:
        if self._requested and self.stream.is_between_transactions:
            yield self._hold_requests()
        if self._is_window_due():
            yield from self._open_window()

    def _in_blocks(self, messages: Sequence[bytes]) -> Iterator[Event | Incomplete | ChangedRows]:
        """Messages that can't be decoded by columns are few: the blocks before and after them can."""
        if len(messages) < BLOCK_MESSAGES_MIN or self._window is not None:
            yield from self._one_by_one(messages)
            return
        block = changed_rows(self.stream, messages)
        if block is not None:
            self._recent.extend(int(each.id) for each in block.transactions if each.is_ended)
            self._heartbeat_at_s = self._clock.monotonic_s()
            yield block
            return
        half = len(messages) // 2
        yield from self._in_blocks(messages[:half])
        if not self._is_ended:
            yield from self._in_blocks(messages[half:])

    def _one_by_one(self, messages: Sequence[bytes]) -> Iterator[Event | Incomplete]:
        stream = self.stream
        for message in messages:
            if self._requested or self._queue.current is not None:
                yield from self._between_transactions()
            found = parse(message)
            if isinstance(found, Keepalive):
                yield from self._keepalive(found)
                continue
            content = decode(found.content, DATA_OFFSET)
            if isinstance(content, Commit):
                yield from self._commit(content)
                if self._is_ended:
                    return
            elif isinstance(content, LogicalMessage):
                self._logical_message(content)
            else:
                for each in stream.apply(found.lsn, content):
                    if self._window is not None and stream.xid is not None:
                        change = each.change if isinstance(each, Incomplete) else each
                        self._window.apply(change, stream.xid)
                    yield each

    def _hold_requests(self) -> Committed:
        requested = tuple(self._requested)
        self._requested.clear()
        return Committed(
            committed_ms=self._clock.now_ms(), position=self.stream.position(), requested=requested
        )

    def _is_window_due(self) -> bool:
        if self._queue.current is None or self._window is not None or not self.stream.is_between_transactions:
            return False
        return self._clock.monotonic_s() >= self._window_at_s

    @property
    def _is_ended(self) -> bool:
        return self._is_end_reached and self._queue.current is None and self.stream.is_between_transactions

    def _start(self) -> Iterator[None]:
        deadline_s = self._clock.monotonic_s() + START_TIMEOUT_S
        while True:
            self._replication.send(start_command(self._session.name, self.stream.lsn))
            try:
                while self._replication.result(wait_s=POLL_S) is None:
                    yield None
                self._is_started = True
                return
            except psycopg.errors.ObjectInUse as error:
                if self._clock.monotonic_s() > deadline_s:
                    raise self._failure(error) from None
                time.sleep(POLL_S)
                yield None
            except psycopg.Error as error:
                raise self._failure(error) from None

    def _read(self) -> Sequence[bytes]:
        try:
            found = self._replication.read(wait_s=POLL_S)
        except psycopg.Error as error:
            raise self._failure(error) from None
        if found:
            self._asked_s = None
        return found

    def _commit(self, commit: Commit) -> Iterator[Event]:
        if self.stream.xid is not None:
            self._recent.append(self.stream.xid)
        committed = self.stream.commit(commit)
        self._heartbeat_at_s = self._clock.monotonic_s()
        if self._is_watermark_reached:
            yield from self._close_window()
            committed = Committed(committed_ms=committed.committed_ms, position=self.stream.position())
        yield committed

    def _keepalive(self, keepalive: Keepalive) -> Iterator[Event]:
        """A point of the log that no captured change stands before. The server asks for a reply when it stops: it
        waits until everything that it has sent is confirmed."""
        self._received = keepalive.lsn
        now_s = self._clock.monotonic_s()
        is_due = keepalive.needs_reply or now_s - self._heartbeat_at_s >= self._heartbeat_s
        if is_due and self.stream.is_between_transactions and keepalive.lsn > self.stream.lsn:
            self.stream.advance(keepalive.lsn)
            yield Committed(committed_ms=self._clock.now_ms(), position=self.stream.position())
        if is_due:
            self._heartbeat_at_s = now_s
        if keepalive.needs_reply:
            self._feedback()

    def _tick(self) -> None:
        now_s = self._clock.monotonic_s()
        if self._asked_s is not None and now_s - self._asked_s > RESPONSE_TIMEOUT_S:
            raise SourceUnavailable(
                f"the server has sent nothing for {RESPONSE_TIMEOUT_S:.0f} s",
                hint="check the server and the network",
            )
        if now_s - self._tables_s >= TABLES_INTERVAL_S and self.stream.is_between_transactions:
            self._tables_s = now_s
            self._find_tables()
        if now_s - self._heartbeat_at_s >= self._heartbeat_s and self._asked_s is None:
            self._asked_s = now_s
            self._feedback(needs_reply=True)
        elif self._confirmed > self._confirmed_sent or now_s - self._sent_s >= FEEDBACK_INTERVAL_S:
            self._feedback()

    def _wait(self) -> None:
        """While the stream is not read: without feedback the server would end it."""
        time.sleep(WAIT_S)
        if self._clock.monotonic_s() - self._sent_s >= FEEDBACK_INTERVAL_S:
            self._feedback()

    def _feedback(self, *, needs_reply: bool = False) -> None:
        try:
            self._replication.feedback(
                # Without the positions of keepalives, the server asks again and again for what it has sent.
                received=max(self.stream.lsn, self._confirmed, self._received),
                confirmed=self._confirmed,
                needs_reply=needs_reply,
            )
        except psycopg.Error as error:
            raise self._failure(error) from None
        self._confirmed_sent = self._confirmed
        self._sent_s = self._clock.monotonic_s()

    def _failure(self, error: psycopg.Error) -> BadCapture | SourceUnavailable:
        """What an error of the stream means: the slot is asked on another connection, this one is dead."""
        try:
            with translated(self._session.address), open_connection(self._session.address) as other:
                slot = self._settled_slot(other)
        except (BadCapture, SourceUnavailable) as found:
            return found
        if isinstance(error, psycopg.errors.ObjectInUse):
            return slot_in_use(self._session.name, slot)
        return SourceUnavailable(
            f"the stream of replication slot {self._session.name} ended: {str(error).strip().splitlines()[0]}",
            hint="see the log of the server",
        )

    def _settled_slot(self, connection: Connection) -> Slot:
        """A server that discards the log of a slot first ends the stream, and marks the slot then."""
        deadline_s = self._clock.monotonic_s() + LOST_TIMEOUT_S
        while True:
            slot = require_slot(connection, self._session.name)
            if slot.wal_status in ("reserved", "extended", None) or self._clock.monotonic_s() > deadline_s:
                return slot
            time.sleep(POLL_S)

    def _open_window(self) -> Iterator[Event]:
        """Read the next chunk, and write its watermark. Without rows, the table is complete."""
        path = self._queue.current
        assert path is not None
        self._window_at_s = self._clock.monotonic_s() + POLL_S  # if this attempt has to be repeated
        table = table_by_path(self._session.control, path)
        if table is None or not table.key:
            yield self._finish_table()
            return
        self._queue.expect(table.rows_total)
        if self._reader is None or self._reader.closed:
            self._reader = open_reader(self._session.address)
        reader = self._reader
        described = self._session.described(table)
        reader.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            row = reader.execute("SELECT pg_current_snapshot()::text").fetchone()
            assert row is not None
            visibility = parse_visibility(row[0])
            if visibility.start < self._read_after:
                return
            if visibility.in_progress & {visibility.full(xid) for xid in self._recent}:
                return  # a change was yielded that this snapshot does not see yet: the next one will
            rows, is_cut = read_window(reader, chunk_statement(table, self._queue.after, WINDOW_ROWS))
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn):
            return  # the table has changed since it was described
        finally:
            if not reader.closed:
                reader.execute("ROLLBACK")
        self._window_at_s = 0.0
        if not rows:
            yield self._finish_table()
            return
        self._window = Window(
            # Written after the rows were read.
            watermark=self._write_message(),
            table=described.table,
            visibility=visibility,
            rows=[
                ReadRow(key=[values[at] for at in described.key_indexes], row=described.row(values))
                for values in rows
            ],
            is_last=len(rows) < WINDOW_ROWS and not is_cut,
        )

    def _write_message(self) -> str:
        text = uuid.uuid4().hex
        self._session.control.execute(
            "SELECT pg_logical_emit_message(true, %s, %s::text)", [MESSAGE_PREFIX, text]
        )
        return text

    def _logical_message(self, message: LogicalMessage) -> None:
        """Messages of an earlier run arrive too, after a restart."""
        if message.prefix != MESSAGE_PREFIX:
            return
        text = message.content.decode("utf-8", "replace")
        self._is_end_reached |= text == self._end_message
        self._is_watermark_reached |= self._window is not None and text == self._window.watermark

    def _close_window(self) -> Iterator[Event]:
        window = self._window
        assert window is not None
        self._window = None
        self._is_watermark_reached = False
        if window.is_stale:
            return
        rows = window.rows
        source = {
            "db": self._session.database,
            "schema": window.table.path[0],
            "table": window.table.path[1],
            "lsn": self.stream.lsn,
            "snapshot": True,
        }
        read_ms = self._clock.now_ms()
        for read in rows:
            self._queue.read(read.key, 1)
            self.stream.snapshot = self._queue.state()
            yield Change(
                table=window.table,
                op=Op.READ,
                after=read.row,
                committed_ms=read_ms,
                source=source,
                position=self.stream.position(),
            )
        self._queue.read(window.last_key, window.rows_read - len(rows))
        if window.is_last:
            self._queue.finish_table()
        self.stream.snapshot = self._queue.state()

    def _finish_table(self) -> Committed:
        """No row carries the position of a snapshot that has ended."""
        self._queue.finish_table()
        self.stream.snapshot = self._queue.state()
        return Committed(committed_ms=self._clock.now_ms(), position=self.stream.position())
