"""Runs a capture: events of the source become records of topics, in transactions of the log with their position."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Generator

from msgspec.structs import replace

from headrace.cdc.capture import Capture, CaptureFolder, CaptureState, CaptureStatus
from headrace.cdc.change import Change, Committed, Event, Op, Position, ReadRows, Table
from headrace.cdc.envelope import Envelope, Record
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.outbox.emptying import OutboxRows
from headrace.cdc.outbox.publishing import OutboxPublisher
from headrace.cdc.publisher import Kept, OpenTransaction, Publisher
from headrace.cdc.schemas import SchemaTopic
from headrace.cdc.source import BulkSource, ChangeSource
from headrace.clock import Clock, SystemClock
from headrace.kafka.cluster import BROKERS_DEFAULT, Cluster
from headrace.kafka.errors import RequestFailed

LINGER_S = 0.02
"""How long records wait for others, so that many small transactions of the database share one of the log."""

LINGER_COMMITS = 5
"""Records also wait this many times as long as the last commit took, so that a busy capture does not spend its time on
commits. An idle source is not waited for."""

EVENTS_PER_COMMIT_MAX = 20_000
"""Bounds what readers of committed data wait for, and what is repeated after a crash."""

STATUS_S = 0.5
"""Between two writes of the status file, and two looks for requests."""

RETRY_S_MIN, RETRY_S_MAX = 0.5, 30.0
"""The pause before a retry, which doubles: a database restarts within seconds, or is away for an hour."""

TOPIC_CONFIGS = {
    "latest": {"cleanup.policy": "compact"},
    "all": {"cleanup.policy": "delete", "retention.ms": "-1"},
}
CHANGES_SUFFIX = ".changes"
"""Of the topic that keeps every change, if there is one for the latest as well."""

log = logging.getLogger("headrace.cdc")


class CaptureRun:
    """One run of a capture, until it is stopped or, with `once`, has written everything."""

    def __init__(
        self,
        capture: Capture,
        folder: CaptureFolder,
        cluster: Cluster,
        *,
        once: bool = False,
        is_stopping: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
    ) -> None:
        self._capture = capture
        self._folder = folder
        self._cluster = cluster
        self._once = once
        self._is_stopping = is_stopping
        self._clock = clock or SystemClock()
        self._envelope = Envelope(capture.name, capture.connector, schemas=capture.schemas)
        self._events = self._transactions = self._rejected = self._commits = 0
        self._outbox: OutboxPublisher | None = None
        self._schemas: SchemaTopic | None = None
        self._requested: tuple[str, ...] = ()
        """snapshots that the source knows of, and that are still in the folder"""
        self._held: tuple[str, ...] = ()
        """those of them that the position of the next commit holds"""
        self._committed_ms: int | None = None
        self.status = CaptureStatus(state=CaptureState.STREAMING, pid=os.getpid())

    def run(self) -> None:
        """Raises `BadCapture` if it cannot go on. A database or a broker that is away is waited for."""
        if not self._folder.lock.take():
            raise BadCapture(
                f"capture {self._capture.name} runs already", hint="a capture runs in one process at a time"
            )
        ended, error = CaptureState.STOPPED, ""
        try:
            self._run_with_retries()
        except Exception as failure:
            ended, error = CaptureState.FAILED, str(failure)
            raise
        finally:
            self._report(state=ended, error=error)
            self._folder.lock.release()

    def _run_with_retries(self) -> None:
        pause_s = RETRY_S_MIN
        while not self._is_ending():
            commits_before = self._commits
            try:
                self._run_once()
                return
            except (SourceUnavailable, RequestFailed) as error:
                if self._commits > commits_before:
                    pause_s = RETRY_S_MIN
                log.warning("capture %s: %s; the next try is in %.1f s", self._capture.name, error, pause_s)
                self._report(state=CaptureState.RETRYING, error=str(error))
                self._sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_S_MAX)

    def _sleep(self, pause_s: float) -> None:
        until_s = time.monotonic() + pause_s
        while time.monotonic() < until_s and not self._is_ending():
            time.sleep(0.05)

    def _is_ending(self) -> bool:
        return self._is_stopping() or self._folder.is_paused()

    def _run_once(self) -> None:
        source = self._capture.open_source()
        try:
            publisher = Publisher(self._capture.name, self._cluster)
            try:
                self._copy(source, publisher)
            finally:
                publisher.close()
        finally:
            source.close()

    def _copy(self, source: ChangeSource, publisher: Publisher) -> None:
        kept = publisher.kept()
        self._schemas = SchemaTopic(self._capture, publisher, self._cluster)
        self._outbox = self._open_outbox(publisher, kept)
        batch = _Batch(
            self._capture, self._envelope, publisher, self._schemas, self._outbox, kept, self._clock
        )
        try:
            read = source.bulk_events if isinstance(source, BulkSource) else source.events
            with contextlib.closing(read(None if kept is None else kept.position, once=self._once)) as events:
                self._copy_events(events, source, batch)
        finally:
            if self._outbox is not None:
                self._rejected += self._outbox.rejected
                self._outbox.close()
                self._outbox = None

    def _open_outbox(self, publisher: Publisher, kept: Kept | None) -> OutboxPublisher | None:
        outbox = self._capture.outbox
        if outbox is None:
            return None
        return OutboxPublisher(
            self._capture.name,
            outbox,
            OutboxRows(self._capture.address, outbox),
            publisher,
            self._cluster,
            partitions=self._capture.partitions or BROKERS_DEFAULT,
            published=() if kept is None else kept.outbox,
        )

    def _copy_events(
        self, events: Generator[Event | ReadRows | None, None, None], source: ChangeSource, batch: _Batch
    ) -> None:
        self._requested = self._held = ()
        self._serve(source)
        reported_s = time.monotonic()
        for event in events:
            now_s = time.monotonic()
            if event is not None:
                batch.add(event, now_s)
                self._count(event)
            if batch.is_due(now_s, is_idle=event is None):
                self._commit(batch, source)
            if now_s - reported_s >= STATUS_S:
                reported_s = now_s
                self._serve(source)
                if self._is_ending():
                    break
        if batch.has_position:
            self._commit(batch, source)
        self._serve(source)

    def _commit(self, batch: _Batch, source: ChangeSource) -> None:
        self._read_renamed(source)
        batch.commit()
        self._commits += 1
        source.confirm(batch.position)
        if self._held:
            # The log has a position that holds them, so a restart continues them.
            self._folder.clear_requests(self._held)
            self._requested = tuple(name for name in self._requested if name not in self._held)
            self._held = ()

    def _read_renamed(self, source: ChangeSource) -> None:
        """A table that is new to the log while a known one is missing may be that one with another name. Its topic
        would only have the rows that change. The request is durable before the changes are committed."""
        assert self._schemas is not None
        unread = self._schemas.take_unread()
        known = self._schemas.tables.difference(unread) if unread else set()
        if not known:
            return
        with contextlib.suppress(BadCapture):  # what is wrong with another table is for the next start
            captured = source.check()
            if not known <= set(captured):
                self._folder.request_snapshot([name for name in unread if name in captured])

    def _count(self, event: Event | ReadRows) -> None:
        if isinstance(event, Committed):
            self._transactions += 1
            self._held += event.requested
        else:
            self._events += event.count if isinstance(event, ReadRows) else 1
            self._committed_ms = event.committed_ms

    def _serve(self, source: ChangeSource) -> None:
        """Report how far the capture is, and answer requests of other processes."""
        requested = [name for name in self._folder.requested_snapshots() if name not in self._requested]
        if requested:
            source.snapshot(requested)
            self._requested += tuple(requested)
        if self._outbox is not None:
            self._outbox.empty()
        snapshots = tuple(source.progress())
        is_reading = any(not each.is_done for each in snapshots)
        self._report(
            state=CaptureState.SNAPSHOT if is_reading else CaptureState.STREAMING,
            lag_bytes=source.lag_bytes(),
            snapshots=snapshots,
            error="",
        )

    def _report(self, **fields: object) -> None:
        self.status = replace(
            self.status,
            updated_ms=self._clock.now_ms(),
            events=self._events,
            transactions=self._transactions,
            committed_ms=self._committed_ms,
            rejected=self._rejected + (self._outbox.rejected if self._outbox is not None else 0),
            **fields,
        )
        self._folder.write_status(self.status)


class _Batch:
    """The events since the last commit, and the place of each in its transaction."""

    def __init__(
        self,
        capture: Capture,
        envelope: Envelope,
        publisher: Publisher,
        schemas: SchemaTopic,
        outbox: OutboxPublisher | None,
        kept: Kept | None,
        clock: Clock,
    ) -> None:
        self._capture = capture
        self._partitions = capture.partitions or BROKERS_DEFAULT
        self._envelope = envelope
        self._publisher = publisher
        self._schemas = schemas
        self._outbox = outbox
        self._clock = clock
        self._transaction = kept.transaction if kept is not None else None
        self._total_order = sum(self._transaction.counts.values()) if self._transaction is not None else 0
        self._topics_of: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        self._loading = set(kept.loading) if kept is not None else set()
        self._marks: str | None = None
        """the topic of transactions"""
        self._events = 0
        self._has_rows = False
        self._since_s = 0.0
        self._linger_s = LINGER_S
        self.position: Position = {}
        self.has_position = False
        """the last event may be one that the source cannot continue from"""

    def add(self, event: Event | ReadRows, now_s: float) -> None:
        if isinstance(event, ReadRows) and self._outbox is not None and self._outbox.owns(event.table):
            for change in event.changes():
                self.add(change, now_s)
            return
        if isinstance(event, ReadRows) is not self._has_rows:
            self._switch(to_rows=not self._has_rows)
        if self._loading and not self._has_rows:
            self._end_loading()
        if self._events == 0:
            self._since_s = now_s
        self._events += 1
        if isinstance(event, Committed):
            self._end(event)
        elif isinstance(event, ReadRows):
            self._write_rows(event)
        else:
            if event.op is Op.TRUNCATE and self.has_position:
                self.commit()  # the rows to remove are read from the topic
            self._write(event)
        position = event.position
        self.has_position = position is not None
        if position is not None:
            self.position = position

    def is_due(self, now_s: float, *, is_idle: bool) -> bool:
        if not self.has_position:
            return False
        return (
            is_idle
            or self._events >= EVENTS_PER_COMMIT_MAX
            or now_s - self._since_s >= self._linger_s
            or (self._outbox is not None and self._outbox.is_full)
        )

    def commit(self) -> None:
        started_s = time.monotonic()
        published = () if self._outbox is None else self._outbox.published
        self._publisher.commit(
            Kept(
                position=dict(self.position),
                transaction=self._transaction,
                outbox=published,
                loading=tuple(sorted(self._loading)),
            )
        )
        if self._outbox is not None:
            self._outbox.committed()
        self._linger_s = max(LINGER_S, LINGER_COMMITS * (time.monotonic() - started_s))
        self._events = 0
        self.has_position = False

    def _write(self, change: Change) -> None:
        if self._outbox is not None and self._outbox.owns(change.table):
            self._outbox.publish(change)
            return
        now_ms = self._clock.now_ms()
        place = self._place(change)
        records = whole = self._envelope.records(change, now_ms, place)
        if change.whole is not None:
            # Compaction may remove the last record that has all values of a row. The history keeps what the log has.
            whole = self._envelope.records(replace(change, after=change.whole), now_ms, place)
        topics = self._topics_of.get(change.table.path) or self._topics(change.table)
        self._schemas.follow(change, [topic for topic, _ in topics], now_ms)
        for topic, keep in topics:
            if keep == "all":
                self._publisher.write(topic, records[0])
            elif change.op is Op.TRUNCATE:
                # It has no key, and a compacted topic has a record for each row that is gone.
                for key in self._publisher.live_keys(topic):
                    self._publisher.write(topic, Record(key=key, value=None))
            else:
                for record in whole:
                    self._publisher.write(topic, record)

    def _write_rows(self, rows: ReadRows) -> None:
        now_ms = self._clock.now_ms()
        topics = [
            topic
            for topic, _ in self._topics_of.get(rows.table.path) or self._topics(rows.table, is_loading=True)
        ]
        first = Change(
            table=rows.table,
            op=Op.READ,
            committed_ms=rows.committed_ms,
            source=rows.source,
            position=None,
        )
        self._schemas.follow(first, topics, now_ms)
        layout = self._envelope.layout(rows, now_ms)
        for topic in topics:
            self._publisher.write_rows(topic, layout, rows.columns)

    def _switch(self, *, to_rows: bool) -> None:
        """Rows and single changes are written in different ways, and each way commits what it has written."""
        if self.has_position:
            self.commit()
        if to_rows:
            self._publisher.begin_rows()
        else:
            self._publisher.end_rows()
        self._has_rows = to_rows

    def _place(self, change: Change) -> dict[str, object] | None:
        """The place of a change in its transaction; the first one begins it."""
        if change.transaction is None or change.op is Op.READ:
            return None
        if self._transaction is None or self._transaction.id != change.transaction:
            self._transaction = OpenTransaction(id=change.transaction, counts={})
            self._total_order = 0
            self._mark("BEGIN", change.committed_ms)
        counts, name = self._transaction.counts, change.table.name
        self._total_order += 1
        counts[name] = counts.get(name, 0) + 1
        return {
            "id": change.transaction,
            "total_order": self._total_order,
            "data_collection_order": counts[name],
        }

    def _end(self, committed: Committed) -> None:
        if self._transaction is not None:
            self._mark("END", committed.committed_ms, self._transaction.counts)
            self._transaction = None

    def _mark(self, status: str, at_ms: int, counts: dict[str, int] | None = None) -> None:
        assert self._transaction is not None
        if self._marks is None:
            self._marks = f"{self._capture.name}.transaction"
            self._ensure(self._marks, TOPIC_CONFIGS["all"])
        self._publisher.write(
            self._marks, self._envelope.transaction(status, self._transaction.id, at_ms, counts)
        )

    def _end_loading(self) -> None:
        # Before the position after the snapshot is committed: a crash in between repeats it.
        for topic in self._loading:
            self._publisher.compact(topic)
        self._loading.clear()

    def _topics(self, table: Table, *, is_loading: bool = False) -> list[tuple[str, str]]:
        """The topics of a table whose first change this is, and what each keeps."""
        name = topic_name(self._capture.name, table)
        both = [(name, "latest"), (f"{name}{CHANGES_SUFFIX}", "all")]
        for path, others in self._topics_of.items():
            if {topic for topic, _ in both} & {topic for topic, _ in others}:
                raise BadCapture(
                    f"tables {table.name} and {'.'.join(path)} would share topic {name}",
                    hint="a topic has only letters, digits, '.', '_' and '-'; capture one of them with --tables",
                )
        topics: list[tuple[str, str]] = both if self._capture.keep == "both" else [(name, self._capture.keep)]
        for topic, keep in topics:
            if keep == "all" or not is_loading:
                self._ensure(topic, TOPIC_CONFIGS[keep])
            elif self._publisher.ensure_loading(topic, partitions=self._partitions):
                self._loading.add(topic)
        self._topics_of[table.path] = topics
        return topics

    def _ensure(self, topic: str, config: dict[str, str]) -> None:
        self._publisher.ensure_topic(topic, partitions=self._partitions, config=config)


def topic_name(capture: str, table: Table) -> str:
    """As Debezium names it: characters that a topic cannot have become `_`."""
    return "".join(
        each if each.isascii() and (each.isalnum() or each in "._-") else "_"
        for each in f"{capture}.{table.name}"
    )
