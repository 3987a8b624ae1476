"""States of share groups in the internal topic `__share_group_state`, in Kafka's own record formats.

A snapshot holds all of a window, the updates behind it what changed; so the topic is not compacted (an update is more
than the last one of its key) but cut off before the oldest snapshot that is still needed. Many changes share a batch,
and many batches a flush.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.groups.storage import KeyValue, chunks, records_in
from headrace.broker.shares.spans import Span
from headrace.broker.shares.states import RecordState
from headrace.broker.shares.window import Window
from headrace.errors import HeadraceError
from headrace.protocol.primitives import MalformedMessage
from headrace.protocol.stored_share_state import (
    SHARE_GROUP_STATE,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from headrace.records.record import Record, encode_batch

if TYPE_CHECKING:
    from headrace.broker.services import Services
    from headrace.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

STATE_TOPIC = "__share_group_state"

UPDATES_PER_SNAPSHOT = 500
"""Kafka's number: bounds what a start has to read again of a busy partition."""

PRUNED_RECORDS_MIN = 20_000
"""Records of the topic before old ones are cut off: a start reads so many in a fraction of a second."""


class ShareKey(NamedTuple):
    """One group on one partition."""

    group_id: str
    topic_id: uuid.UUID
    partition: int


@dataclass(slots=True, eq=False)
class StoredWindow:
    """A window, and what is known of its records on disk."""

    key: ShareKey
    window: Window
    state_epoch: int = 0
    snapshot_epoch: int = -1
    """-1 before there is one."""
    snapshot_offset: int = -1
    updates: int = 0
    """Since the snapshot."""

    @property
    def needs_snapshot(self) -> bool:
        return self.snapshot_epoch < 0 or self.updates >= UPDATES_PER_SNAPSHOT


class StateWriter:
    """Writes windows down. What changes while a flush runs goes into the next one, together."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._waiting: dict[StoredWindow, list[asyncio.Future[None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self.writes = 0

    def written(self, stored: StoredWindow) -> asyncio.Future[None]:
        """Done when all that happened to a window up to now is as durable as the settings ask."""
        done: asyncio.Future[None] = self._services.loop.create_future()
        self._waiting.setdefault(stored, []).append(done)
        if self._task is None:
            self._task = self._services.loop.create_task(self._run())
        return done

    async def idle(self) -> None:
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting = self._waiting, {}
                try:
                    await self._write(waiting)
                except (HeadraceError, OSError) as error:
                    logger.error("states of share groups not stored: %s", error)
                    _finish(waiting, error)
                else:
                    _finish(waiting, None)
        finally:
            self._task = None

    async def _write(self, waiting: Iterable[StoredWindow]) -> None:
        changed = [stored for stored in waiting if stored.window.is_changed or stored.needs_snapshot]
        if changed:
            now_ms = self._services.clock.now_ms()
            await self.append([_entry(stored, now_ms) for stored in changed], changed)

    async def append(self, entries: list[KeyValue], windows: list[StoredWindow] | None = None) -> None:
        """Write records, each of its window if those are given."""
        services = self._services
        [partition] = services.topics.internal(STATE_TOPIC).partitions
        now_ms = services.clock.now_ms()
        written = 0
        for chunk in chunks(entries):
            records = [
                Record(offset=index, timestamp_ms=now_ms, key=entry.key, value=entry.value)
                for index, entry in enumerate(chunk)
            ]
            appended = partition.log.append(encode_batch(records), now_ms=now_ms, from_client=False)
            for index, stored in enumerate((windows or [])[written : written + len(chunk)]):
                if stored.updates == 0:
                    stored.snapshot_offset = appended.base_offset + index
            written += len(chunk)
        self.writes += 1
        if partition.reads_unsynced:
            partition.grown(0)
        else:
            await services.flusher.flushed(partition)

    def prune(self, windows: Iterable[StoredWindow]) -> None:
        """Cut off what no window needs any more; windows that keep too much are written anew first."""
        topic = self._services.topics.get(STATE_TOPIC)
        if topic is None:
            return
        log = topic.partitions[0].log
        if log.end_offset - log.start_offset < PRUNED_RECORDS_MIN:
            return
        old_below = log.end_offset - PRUNED_RECORDS_MIN // 2
        oldest = log.durable_offset
        for stored in windows:
            if stored.snapshot_offset < old_below:
                stored.updates = UPDATES_PER_SNAPSHOT
                self.written(stored).add_done_callback(asyncio.Future.exception)
            oldest = min(oldest, stored.snapshot_offset)
        if oldest > log.start_offset:
            log.delete_records_before(oldest)


def _finish(
    waiting: dict[StoredWindow, list[asyncio.Future[None]]], error: HeadraceError | OSError | None
) -> None:
    for futures in waiting.values():
        for future in futures:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)


# What is written


def _entry(stored: StoredWindow, now_ms: int) -> KeyValue:
    window, key = stored.window, stored.key
    if stored.needs_snapshot:
        stored.snapshot_epoch += 1
        stored.updates = 0
        spans = window.snapshot()
        value = ShareSnapshotValue(
            snapshot_epoch=stored.snapshot_epoch,
            state_epoch=stored.state_epoch,
            leader_epoch=0,
            start_offset=window.start_offset,
            delivery_complete_count=window.done_records,
            create_timestamp=now_ms,
            write_timestamp=now_ms,
            state_batches=_batches(span for span in spans if not _is_new(span)),
        )
        return KeyValue(SHARE_GROUP_STATE.encode_key(ShareSnapshotKey(**key._asdict())), _encoded(value))
    stored.updates += 1
    update = ShareUpdateValue(
        snapshot_epoch=stored.snapshot_epoch,
        leader_epoch=0,
        start_offset=window.start_offset,
        delivery_complete_count=window.done_records,
        state_batches=_batches(window.take_changes()),
    )
    return KeyValue(SHARE_GROUP_STATE.encode_key(ShareUpdateKey(**key._asdict())), _encoded(update))


def _is_new(span: Span) -> bool:
    return span.state is RecordState.AVAILABLE and span.delivery_count == 0


def _batches(spans: Iterable[Span]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(
            first_offset=span.first,
            last_offset=span.last,
            delivery_state=span.state,
            delivery_count=span.delivery_count,
        )
        for span in spans
    )


def _encoded(value: object) -> bytes:
    return SHARE_GROUP_STATE.encode_value(value)


def tombstone(key: ShareKey) -> KeyValue:
    return KeyValue(SHARE_GROUP_STATE.encode_key(ShareSnapshotKey(**key._asdict())), None)


# What is read again


def read_windows(log: PartitionLog, *, batch_bytes_max: int) -> dict[ShareKey, StoredWindow]:
    """Every window that a log holds; from a thread that may wait for the disk. Raises where it is damaged."""
    windows: dict[ShareKey, StoredWindow] = {}
    for record in records_in(log, batch_bytes_max):
        try:
            _replay(windows, record)
        except (MalformedMessage, ValueError) as error:
            logger.error("record of %s skipped: %s", STATE_TOPIC, error, extra={"log_offset": record.offset})
    for stored in windows.values():
        stored.window.settle()
        stored.window.take_changes()
    return windows


def _replay(windows: dict[ShareKey, StoredWindow], record: Record) -> None:
    key = SHARE_GROUP_STATE.decode_key(record.key or b"")
    if key is None:
        return
    share_key = ShareKey(key.group_id, key.topic_id, key.partition)
    if record.value is None:
        windows.pop(share_key, None)
    elif isinstance(key, ShareSnapshotKey):
        snapshot = SHARE_GROUP_STATE.decode_value(ShareSnapshotValue, record.value)
        windows[share_key] = StoredWindow(
            share_key,
            Window.restored(snapshot.start_offset, _spans(snapshot.state_batches)),
            state_epoch=snapshot.state_epoch,
            snapshot_epoch=snapshot.snapshot_epoch,
            snapshot_offset=record.offset,
        )
    else:
        update = SHARE_GROUP_STATE.decode_value(ShareUpdateValue, record.value)
        stored = windows.get(share_key)
        if stored is not None and stored.snapshot_epoch == update.snapshot_epoch:
            _update(stored, update)


def _update(stored: StoredWindow, update: ShareUpdateValue) -> None:
    if update.start_offset >= 0:
        stored.window.start_at(update.start_offset)
    for span in _spans(update.state_batches):
        stored.window.replay(span)
    stored.window.settle()
    stored.updates += 1


def _spans(batches: Iterable[StateBatch]) -> Iterable[Span]:
    return (
        Span(one.first_offset, one.last_offset, RecordState(one.delivery_state), one.delivery_count)
        for one in batches
    )
