"""Events, rejected commands and snapshots as records: their topics, keys, values and headers.

Values only. The key is the aggregate id, the value is JSON, and everything else is a header.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from headrace.events.errors import EventsError, InvalidEvent

TYPE, ID, VERSION = "type", "id", "version"
CORRELATION_ID, CAUSATION_ID = "correlation-id", "causation-id"
REASON, KIND = "reason", "kind"
STATE_VERSION = "state-version"

Header = tuple[str, bytes]

RECORD_OVERHEAD_BYTES = 256
"""The header of a batch with one record, and the lengths within; more than they need."""


class Topics(Struct, frozen=True, kw_only=True):
    """The topics of a store. All have the same number of partitions, so that a key has the same number in each."""

    events: str
    rejected: str
    snapshots: str
    commands: str
    replies: str

    @classmethod
    def of(cls, topic: str) -> Topics:
        return cls(
            events=topic,
            rejected=f"{topic}.rejected",
            snapshots=f"{topic}.snapshots",
            commands=f"{topic}.commands",
            replies=f"{topic}.replies",
        )


class OutRecord(Struct, frozen=True, kw_only=True):
    """A record to write. `value` None is a tombstone; `partition` None: the one of the owner."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int
    partition: int | None = None

    @property
    def size_bytes(self) -> int:
        named = sum(len(name.encode()) + len(text) for name, text in self.headers)
        return len(self.key or b"") + len(self.value or b"") + named + RECORD_OVERHEAD_BYTES


class StoredEvent(Struct, frozen=True, kw_only=True):
    """An event as the log has it. `data` is its JSON; `offset` is -1 until it is written."""

    aggregate_id: str
    version: int
    type: str
    id: str
    timestamp_ms: int
    data: bytes
    correlation_id: str
    causation_id: str
    offset: int = -1


class Rejection(Struct, frozen=True, kw_only=True):
    """A command that was rejected, and why. `is_error` means that deciding failed, not that `decide` rejected it."""

    aggregate_id: str
    command_id: str
    type: str
    reason: str
    timestamp_ms: int
    data: bytes
    correlation_id: str = ""
    is_error: bool = False


class Snapshot(Struct, frozen=True, kw_only=True):
    aggregate_id: str
    version: int
    state_version: int
    data: bytes


class InRecord(Struct, frozen=True, kw_only=True):
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes]


def event_record(topic: str, event: StoredEvent) -> OutRecord:
    return OutRecord(
        topic=topic,
        key=event.aggregate_id.encode(),
        value=event.data,
        timestamp_ms=event.timestamp_ms,
        headers=headers_of(
            {
                TYPE: event.type,
                ID: event.id,
                VERSION: event.version,
                CORRELATION_ID: event.correlation_id,
                CAUSATION_ID: event.causation_id,
            }
        ),
    )


def read_event(record: InRecord) -> StoredEvent:
    """EventsError if the record is no event."""
    fields = Fields(record, "an event")
    return StoredEvent(
        aggregate_id=fields.key(),
        version=fields.number(VERSION),
        type=fields.text(TYPE),
        id=fields.text(ID),
        timestamp_ms=record.timestamp_ms,
        data=record.value or b"",
        correlation_id=fields.text(CORRELATION_ID, ""),
        causation_id=fields.text(CAUSATION_ID, ""),
        offset=record.offset,
    )


def rejection_record(topic: str, rejection: Rejection) -> OutRecord:
    return OutRecord(
        topic=topic,
        key=rejection.aggregate_id.encode(),
        value=rejection.data,
        timestamp_ms=rejection.timestamp_ms,
        headers=headers_of(
            {
                TYPE: rejection.type,
                ID: rejection.command_id,
                REASON: rejection.reason,
                KIND: "error" if rejection.is_error else "rejected",
                CORRELATION_ID: rejection.correlation_id,
            }
        ),
    )


def read_rejection(record: InRecord) -> Rejection:
    fields = Fields(record, "a rejected command")
    return Rejection(
        aggregate_id=(record.key or b"").decode(errors="replace"),
        command_id=fields.text(ID),
        type=fields.text(TYPE),
        reason=fields.text(REASON, ""),
        timestamp_ms=record.timestamp_ms,
        data=record.value or b"",
        correlation_id=fields.text(CORRELATION_ID, ""),
        is_error=fields.text(KIND, "rejected") == "error",
    )


def snapshot_record(topic: str, snapshot: Snapshot, timestamp_ms: int) -> OutRecord:
    return OutRecord(
        topic=topic,
        key=snapshot.aggregate_id.encode(),
        value=snapshot.data,
        timestamp_ms=timestamp_ms,
        headers=headers_of({VERSION: snapshot.version, STATE_VERSION: snapshot.state_version}),
    )


def read_snapshot(record: InRecord) -> Snapshot:
    fields = Fields(record, "a snapshot")
    return Snapshot(
        aggregate_id=fields.key(),
        version=fields.number(VERSION),
        state_version=fields.number(STATE_VERSION),
        data=record.value or b"",
    )


def header_map(pairs: Iterable[tuple[str, Any]] | None) -> dict[str, bytes]:
    """The last of each name; a header without a value is empty."""
    return {name: value or b"" for name, value in pairs or ()}


def headers_of(fields: Mapping[str, str | int]) -> tuple[Header, ...]:
    """Headers as text, without the empty ones."""
    return tuple((name, str(text).encode(errors="replace")) for name, text in fields.items() if text != "")


class Fields:
    """The headers of a record, each of which may be missing or damaged."""

    def __init__(self, record: InRecord, what: str) -> None:
        self._record = record
        self._what = what

    def key(self) -> str:
        try:
            key = (self._record.key or b"").decode()
        except UnicodeDecodeError:
            key = ""
        if not key:
            raise self._error("its key is no aggregate id")
        return key

    def text(self, name: str, default: str | None = None) -> str:
        found = self._record.headers.get(name)
        if found is None:
            if default is None:
                raise self._error(f"the header {name} is missing")
            return default
        return found.decode(errors="replace")

    def number(self, name: str) -> int:
        text = self.text(name)
        if not text.isdecimal():
            raise self._error(f"the header {name} is {text!r:.40}, not a number")
        return int(text)

    def _error(self, problem: str) -> EventsError:
        record = self._record
        return EventsError(
            f"{record.topic}-{record.partition}@{record.offset} is not {self._what}: {problem}",
            hint="only its store may write to this topic; give other records a topic of their own",
        )


def check_size(record: OutRecord, message_bytes_max: int) -> None:
    """InvalidEvent if the topic does not take a record of this size."""
    if record.size_bytes > message_bytes_max:
        raise InvalidEvent(
            f"a record for {record.topic} has {record.size_bytes:,} bytes, and the topic takes {message_bytes_max:,}",
            hint=f"`headrace topic alter {record.topic} --config max.message.bytes=N` raises it",
        )
