"""States of share groups in the internal topic `__share_group_state`, in Kafka's own record formats.

A snapshot has all of a window, the updates after it have what changed. So the topic is not compacted (all updates of a
key count, not only the last). `state_writer` writes the records, and deletes those before the oldest snapshot that is
still needed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import asdict

from headrace.broker.shares.spans import Span
from headrace.broker.shares.states import RecordState
from headrace.broker.shares.window import DeadRecords, Window
from headrace.broker.state_topic import KeyValue
from headrace.protocol.stored_share_state import (
    SHARE_GROUP_STATE,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
    StateBatch,
)
from headrace.records.batch import BatchHeader
from headrace.records.record import Record

STATE_TOPIC = "__share_group_state"

UPDATES_PER_SNAPSHOT = 500
"""Kafka's number: bounds what a start has to read of a busy partition."""


class ShareKey(Struct, frozen=True):
    """One group on one partition."""

    group_id: str
    topic_id: uuid.UUID
    partition: int


class StoredWindow(Struct, eq=False):
    """A window, and its records in the log."""

    key: ShareKey
    window: Window
    state_epoch: int = 0
    snapshot_epoch: int = -1
    """-1 before there is one."""
    snapshot_offset: int = -1
    updates: int = 0
    """Since the snapshot."""
    dead: list[DeadRecords] = field(default_factory=list)
    """Their states are appended, and not known to be durable yet."""
    is_deleted: bool = False
    """Its group or topic was deleted, or another window has replaced it."""

    @property
    def needs_snapshot(self) -> bool:
        return self.snapshot_epoch < 0 or self.updates >= UPDATES_PER_SNAPSHOT

    def request_snapshot(self) -> None:
        """Make the next record a snapshot, so that single changes need not be kept until then."""
        self.updates = UPDATES_PER_SNAPSHOT
        self.window.clear_changes()

    @property
    def is_unwritten(self) -> bool:
        return not self.is_deleted and (self.needs_snapshot or self.window.is_changed)

    @property
    def is_pending(self) -> bool:
        """Whether something of it is not durable yet."""
        return self.is_unwritten or bool(self.dead)

    def entry(self, now_ms: int) -> KeyValue:
        """The record with everything that is not in the log yet. Call `appended` when the log has it."""
        return _snapshot(self, now_ms) if self.needs_snapshot else _update(self)

    def appended(self, offset: int) -> None:
        """The entry was appended."""
        if self.needs_snapshot:
            self.snapshot_epoch += 1
            self.snapshot_offset = offset
            self.updates = 0
        else:
            self.updates += 1
        self.window.clear_changes()
        self.dead += self.window.dead
        self.window.dead = []


# Encoding


def _snapshot(stored: StoredWindow, now_ms: int) -> KeyValue:
    window = stored.window
    value = ShareSnapshotValue(
        snapshot_epoch=stored.snapshot_epoch + 1,
        state_epoch=stored.state_epoch,
        leader_epoch=0,
        start_offset=window.start_offset,
        delivery_complete_count=window.done_records,
        create_timestamp=now_ms,
        write_timestamp=now_ms,
        state_batches=_batches(
            span
            for span in window.snapshot()
            if span.state is not RecordState.AVAILABLE or span.delivery_count > 0
        ),
    )
    key = ShareSnapshotKey(**asdict(stored.key))
    return KeyValue(SHARE_GROUP_STATE.encode_key(key), SHARE_GROUP_STATE.encode_value(value))


def _update(stored: StoredWindow) -> KeyValue:
    value = ShareUpdateValue(
        snapshot_epoch=stored.snapshot_epoch,
        leader_epoch=0,
        start_offset=stored.window.start_offset,
        delivery_complete_count=stored.window.done_records,
        state_batches=_batches(stored.window.changes()),
    )
    key = ShareUpdateKey(**asdict(stored.key))
    return KeyValue(SHARE_GROUP_STATE.encode_key(key), SHARE_GROUP_STATE.encode_value(value))


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


def tombstone(key: ShareKey) -> KeyValue:
    return KeyValue(SHARE_GROUP_STATE.encode_key(ShareSnapshotKey(**asdict(key))), None)


# Loading


class StoredWindows:
    """Every window of a log."""

    def __init__(self) -> None:
        self.by_key: dict[ShareKey, StoredWindow] = {}

    def apply(self, header: BatchHeader, record: Record) -> None:
        key = None if header.is_control else SHARE_GROUP_STATE.decode_key(record.key or b"")
        if key is None:
            return
        share_key = ShareKey(key.group_id, key.topic_id, key.partition)
        if record.value is None:
            self.by_key.pop(share_key, None)
        elif isinstance(key, ShareSnapshotKey):
            snapshot = SHARE_GROUP_STATE.decode_value(ShareSnapshotValue, record.value)
            self.by_key[share_key] = StoredWindow(
                share_key,
                Window.restored(snapshot.start_offset, _spans(snapshot.state_batches)),
                state_epoch=snapshot.state_epoch,
                snapshot_epoch=snapshot.snapshot_epoch,
                snapshot_offset=record.offset,
            )
        else:
            update = SHARE_GROUP_STATE.decode_value(ShareUpdateValue, record.value)
            stored = self.by_key.get(share_key)
            if stored is not None and stored.snapshot_epoch == update.snapshot_epoch:
                _replay_update(stored, update)

    def complete(self) -> None:
        for stored in self.by_key.values():
            stored.window.clear_changes()


def _replay_update(stored: StoredWindow, update: ShareUpdateValue) -> None:
    if update.start_offset >= 0:
        stored.window.start_at(update.start_offset)
    stored.window.replay(_spans(update.state_batches))
    stored.updates += 1


def _spans(batches: Iterable[StateBatch]) -> Iterable[Span]:
    return (
        Span(one.first_offset, one.last_offset, RecordState(one.delivery_state), one.delivery_count)
        for one in batches
    )
