"""Runs a capture: events of the source become records of topics, in transactions of the log with their position."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Generator

from msgspec.structs import replace

from headrace.cdc.capture import Capture, CaptureFolder, CaptureState, CaptureStatus
from headrace.cdc.change import Change, Committed, Event, Op, Position, Table
from headrace.cdc.envelope import Envelope, Record
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.publisher import Kept, OpenTransaction, Publisher
from headrace.cdc.source import ChangeSource
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
        self._events = self._transactions = 0
        self._requested: tuple[str, ...] = ()
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
            events_before = self._events
            try:
                self._run_once()
                return
            except (SourceUnavailable, RequestFailed) as error:
                if self._events > events_before:
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
        batch = _Batch(self._capture, self._envelope, publisher, kept, self._clock)
        with contextlib.closing(
            source.events(None if kept is None else kept.position, once=self._once)
        ) as events:
            self._copy_events(events, source, batch)

    def _copy_events(
        self, events: Generator[Event | None, None, None], source: ChangeSource, batch: _Batch
    ) -> None:
        self._requested = ()
        self._serve(source)
        reported_s = time.monotonic()
        for event in events:
            if event is not None:
                batch.add(event)
                self._count(event)
            if batch.is_due(is_idle=event is None):
                self._commit(batch, source)
            if time.monotonic() - reported_s >= STATUS_S:
                reported_s = time.monotonic()
                self._serve(source)
                if self._is_ending():
                    break
        if batch.has_position:
            self._commit(batch, source)
        self._serve(source)

    def _commit(self, batch: _Batch, source: ChangeSource) -> None:
        batch.commit()
        source.confirm(batch.position)
        if self._requested:
            # The position has them now, so a restart continues them.
            self._folder.clear_requests(self._requested)
            self._requested = ()

    def _count(self, event: Event) -> None:
        if isinstance(event, Change):
            self._events += 1
            self._committed_ms = event.committed_ms
        else:
            self._transactions += 1

    def _serve(self, source: ChangeSource) -> None:
        """Report how far the capture is, and answer requests of other processes."""
        requested = self._folder.requested_snapshots()
        if requested and not self._requested:
            source.snapshot(requested)
            self._requested = requested
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
            **fields,
        )
        self._folder.write_status(self.status)


class _Batch:
    """The events since the last commit, and the place of each in its transaction."""

    def __init__(
        self, capture: Capture, envelope: Envelope, publisher: Publisher, kept: Kept | None, clock: Clock
    ) -> None:
        self._capture = capture
        self._envelope = envelope
        self._publisher = publisher
        self._clock = clock
        self._transaction = kept.transaction if kept is not None else None
        self._topics_of: dict[tuple[str, ...], list[tuple[str, str]]] = {}
        self._events = 0
        self._since_s = 0.0
        self._linger_s = LINGER_S
        self.position: Position = {}
        self.has_position = False
        """the last event may be one that the source cannot continue from"""

    def add(self, event: Event) -> None:
        if self._events == 0:
            self._since_s = time.monotonic()
        self._events += 1
        if isinstance(event, Committed):
            self._end(event)
        else:
            if event.op is Op.TRUNCATE and self.has_position:
                self.commit()  # the rows to remove are read from the topic
            self._write(event)
        self.has_position = event.position is not None
        if event.position is not None:
            self.position = event.position

    def is_due(self, *, is_idle: bool) -> bool:
        if not self.has_position:
            return False
        return (
            is_idle
            or self._events >= EVENTS_PER_COMMIT_MAX
            or time.monotonic() - self._since_s >= self._linger_s
        )

    def commit(self) -> None:
        started_s = time.monotonic()
        self._publisher.commit(Kept(position=dict(self.position), transaction=self._transaction))
        self._linger_s = max(LINGER_S, LINGER_COMMITS * (time.monotonic() - started_s))
        self._events = 0
        self.has_position = False

    def _write(self, change: Change) -> None:
        order = self._place(change)
        now_ms = self._clock.now_ms()
        records = self._envelope.records(change, now_ms, order)
        for topic, keep in self._topics(change.table):
            self._ensure(topic, TOPIC_CONFIGS[keep])
            if keep == "all":
                self._publisher.write(topic, records[0])
            elif change.op is Op.TRUNCATE:
                # It has no key, and a compacted topic has a record for each row that is gone.
                for key in self._publisher.live_keys(topic):
                    self._publisher.write(topic, Record(key=key, value=None))
            else:
                for record in records:
                    self._publisher.write(topic, record)

    def _place(self, change: Change) -> dict[str, object] | None:
        """The place of a change in its transaction; the first one begins it."""
        if change.transaction is None or change.op is Op.READ:
            return None
        if self._transaction is None or self._transaction.id != change.transaction:
            self._transaction = OpenTransaction(id=change.transaction, counts={})
            self._mark("BEGIN", change.committed_ms)
        counts = self._transaction.counts
        counts[change.table.name] = counts.get(change.table.name, 0) + 1
        return {
            "id": self._transaction.id,
            "total_order": sum(counts.values()),
            "data_collection_order": counts[change.table.name],
        }

    def _end(self, committed: Committed) -> None:
        if self._transaction is not None:
            self._mark("END", committed.committed_ms, self._transaction.counts)
            self._transaction = None

    def _mark(self, status: str, at_ms: int, counts: dict[str, int] | None = None) -> None:
        assert self._transaction is not None
        topic = f"{self._capture.name}.transaction"
        self._ensure(topic, TOPIC_CONFIGS["all"])
        self._publisher.write(topic, self._envelope.transaction(status, self._transaction.id, at_ms, counts))

    def _topics(self, table: Table) -> list[tuple[str, str]]:
        """The topics of a table, and what each keeps."""
        if table.path not in self._topics_of:
            name = topic_name(self._capture.name, table)
            topics = [(name, "latest"), (f"{name}{CHANGES_SUFFIX}", "all")]
            for path, others in self._topics_of.items():
                if {topic for topic, _ in topics} & {topic for topic, _ in others}:
                    raise BadCapture(
                        f"tables {table.name} and {'.'.join(path)} would share topic {name}",
                        hint="a topic has only letters, digits, '.', '_' and '-'; capture one of them with --tables",
                    )
            keep = self._capture.keep
            self._topics_of[table.path] = topics if keep == "both" else [(name, keep)]
        return self._topics_of[table.path]

    def _ensure(self, topic: str, config: dict[str, str]) -> None:
        self._publisher.ensure_topic(
            topic, partitions=self._capture.partitions or BROKERS_DEFAULT, config=config
        )


def topic_name(capture: str, table: Table) -> str:
    """As Debezium names it: characters that a topic cannot have become `_`."""
    return "".join(
        each if each.isascii() and (each.isalnum() or each in "._-") else "_"
        for each in f"{capture}.{table.name}"
    )
