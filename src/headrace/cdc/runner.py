"""Runs a capture: events of the source become records of topics, in transactions of the log with their position."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Generator

from msgspec.structs import replace

from headrace.cdc.batch import Batch
from headrace.cdc.capture import Capture, CaptureFolder, CaptureState, CaptureStatus
from headrace.cdc.change import BulkEvent, Change, ChangedRows, Committed
from headrace.cdc.envelope import Envelope
from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.outbox.emptying import OutboxRows
from headrace.cdc.outbox.publishing import OutboxPublisher
from headrace.cdc.publisher import Kept, Publisher
from headrace.cdc.schemas import SchemaTopic
from headrace.cdc.source import BulkSource, ChangeSource
from headrace.clock import Clock, SystemClock
from headrace.kafka.cluster import BROKERS_DEFAULT, Cluster
from headrace.kafka.errors import RequestFailed

STATUS_S = 0.5
"""Between two writes of the status file, and two looks for requests."""

RETRY_S_MIN, RETRY_S_MAX = 0.5, 30.0
"""The pause before a retry, which doubles: a database restarts within seconds, or is away for an hour."""

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
        batch = Batch(
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
        self, events: Generator[BulkEvent | None, None, None], source: ChangeSource, batch: Batch
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

    def _commit(self, batch: Batch, source: ChangeSource) -> None:
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

    def _count(self, event: BulkEvent) -> None:
        if isinstance(event, Committed):
            self._transactions += 1
            self._held += event.requested
            return
        if isinstance(event, ChangedRows):
            self._transactions += sum(each.is_ended for each in event.transactions)
        self._events += 1 if isinstance(event, Change) else event.count
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
