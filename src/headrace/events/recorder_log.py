"""The records and the database behind the recorders of the library `eventsourcing`: one application sequence.

A topic with one partition has the events of an application and the positions that it tracks. The number of an event in
the log is its notification id, so ids have no gaps and are in the order of the commits. This module does not import
the library.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from msgspec import Struct

from headrace.events.aggregate import check_aggregate_id
from headrace.events.errors import EventsError, InvalidEvent
from headrace.events.fenced_log import FencedLog
from headrace.events.followed_log import LogSetup
from headrace.events.log_database import LogDatabase
from headrace.events.records import (
    KIND,
    TYPE,
    VERSION,
    Fields,
    InRecord,
    OutRecord,
    check_size,
    headers_of,
)
from headrace.events.topics import message_bytes_max, prepare_topic
from headrace.kafka.cluster import Cluster

INSERT_ID, ID_TYPE, NOTIFICATION_ID = "insert-id", "id-type", "notification-id"
EVENT, TRACKING = "event", "tracking"

_SCHEMA = """
CREATE TABLE events (
    number INTEGER PRIMARY KEY, originator_id TEXT, is_uuid INT, version INT, type TEXT, state BLOB,
    insert_id TEXT, UNIQUE (originator_id, version)
);
CREATE TABLE tracking (application TEXT PRIMARY KEY, notification_id INT, insert_id TEXT) WITHOUT ROWID;
"""

_COLUMNS = "number, originator_id, is_uuid, version, type, state"


class Entry(Struct, frozen=True, kw_only=True):
    """An event of the application sequence. `number` is 0 until it is in the log."""

    originator_id: str
    is_uuid: bool
    version: int
    type: str
    state: bytes
    number: int = 0


class Tracked(Struct, frozen=True, kw_only=True):
    """The position of this application in the sequence of another one."""

    application: str
    notification_id: int


class AlreadyRecorded(EventsError):
    """An event with this id and version exists, or the position is not after the recorded one."""


class RecorderDatabase(LogDatabase):
    def __init__(self) -> None:
        super().__init__(_SCHEMA)

    def add(self, entry: Entry, insert_id: str) -> int:
        """Its number."""
        row = (entry.originator_id, entry.is_uuid, entry.version, entry.type, entry.state, insert_id)
        number = self.last_number() + 1
        self._database.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", (number, *row))
        return number

    def track(self, tracked: Tracked, insert_id: str) -> None:
        self._database.execute(
            "REPLACE INTO tracking VALUES (?, ?, ?)",
            (tracked.application, tracked.notification_id, insert_id),
        )

    def has_version(self, originator_id: str, version: int) -> bool:
        return self.insert_id_of(originator_id, version) is not None

    def insert_id_of(self, originator_id: str, version: int) -> str | None:
        found = self._one(
            "SELECT insert_id FROM events WHERE originator_id = ? AND version = ?", originator_id, version
        )
        return None if found is None else found[0]

    def last_number(self) -> int:
        found = self._one("SELECT max(number) FROM events")
        return (found and found[0]) or 0

    def tracked(self, application: str) -> tuple[int, str] | None:
        """The recorded position, and the insert that recorded it."""
        found = self._one(
            "SELECT notification_id, insert_id FROM tracking WHERE application = ?", application
        )
        return None if found is None else (found[0], found[1])

    def of_originator(
        self, originator_id: str, *, gt: int | None, lte: int | None, desc: bool, limit: int | None
    ) -> list[Entry]:
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM events WHERE originator_id = ? AND version > ? AND version <= ?"
            f" ORDER BY version {'DESC' if desc else 'ASC'} LIMIT ?",
            (
                originator_id,
                -(2**62) if gt is None else gt,
                2**62 if lte is None else lte,
                -1 if limit is None else limit,
            ),
        )
        return [_entry(row) for row in rows]

    def of_sequence(self, *, first: int, last: int | None, limit: int, types: Sequence[str]) -> list[Entry]:
        marks = ", ".join("?" * len(types))
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM events WHERE number >= ? AND number <= ?"
            + (f" AND type IN ({marks})" if types else "")
            + " ORDER BY number LIMIT ?",
            (first, 2**62 if last is None else last, *types, limit),
        )
        return [_entry(row) for row in rows]


class RecorderDraft:
    """The events and the position of one insert."""

    def __init__(self, topic: str, database: RecorderDatabase, message_bytes_max: int) -> None:
        self._topic = topic
        self._database = database
        self._message_bytes_max = message_bytes_max
        self.id = uuid.uuid4().hex
        self.records: list[OutRecord] = []
        self.entries: list[Entry] = []
        self.tracked: Tracked | None = None

    def insert(self, entry: Entry) -> int:
        """The notification id that the event will have; AlreadyRecorded if its version exists."""
        if self._database.has_version(entry.originator_id, entry.version):
            raise AlreadyRecorded(f"version {entry.version} of {entry.originator_id} is recorded already")
        if entry.version < 0:
            raise InvalidEvent(f"{entry.version} can't be a version of {entry.originator_id}")
        self._write(
            check_aggregate_id(entry.originator_id),
            entry.state,
            {
                KIND: EVENT,
                TYPE: entry.type,
                VERSION: entry.version,
                ID_TYPE: "uuid" if entry.is_uuid else "str",
            },
        )
        self.entries.append(entry)
        return self._database.add(entry, self.id)

    def track(self, tracked: Tracked) -> None:
        known = self._database.tracked(tracked.application)
        if known is not None and known[0] >= tracked.notification_id:
            raise AlreadyRecorded(
                f"position {tracked.notification_id} of {tracked.application} is not after {known[0]}"
            )
        self._write(
            check_aggregate_id(tracked.application),
            b"",
            {KIND: TRACKING, NOTIFICATION_ID: tracked.notification_id},
        )
        self.tracked = tracked
        self._database.track(tracked, self.id)

    def _write(self, key: bytes, value: bytes, fields: dict[str, str | int]) -> None:
        record = OutRecord(
            topic=self._topic,
            key=key,
            value=value,
            headers=headers_of({**fields, INSERT_ID: self.id}),
            timestamp_ms=0,  # the client's: the library has times in its events
        )
        check_size(record, self._message_bytes_max)
        self.records.append(record)


class RecorderContent:
    def __init__(self, topic: str, message_bytes_max: int) -> None:
        self.database = RecorderDatabase()
        self._topic = topic
        self._message_bytes_max = message_bytes_max

    def draft(self) -> RecorderDraft:
        return RecorderDraft(self._topic, self.database, self._message_bytes_max)

    def on_committed(self, draft: RecorderDraft, offsets: Sequence[int]) -> None:
        """Offsets are of no interest: the application sequence counts events only."""

    def has(self, draft: RecorderDraft) -> bool:
        if draft.entries:
            first = draft.entries[0]
            return self.database.insert_id_of(first.originator_id, first.version) == draft.id
        known = None if draft.tracked is None else self.database.tracked(draft.tracked.application)
        return known is not None and known[1] == draft.id

    def apply(self, record: InRecord) -> None:
        fields = Fields(record, "an event of the library eventsourcing")
        insert_id = fields.text(INSERT_ID)
        if fields.text(KIND) == TRACKING:
            tracked = Tracked(application=fields.key(), notification_id=fields.number(NOTIFICATION_ID))
            self.database.track(tracked, insert_id)
            return
        entry = Entry(
            originator_id=fields.key(),
            is_uuid=fields.text(ID_TYPE) == "uuid",
            version=fields.number(VERSION),
            type=fields.text(TYPE, ""),
            state=record.value or b"",
        )
        known = self.database.insert_id_of(entry.originator_id, entry.version)
        if known is None:
            self.database.add(entry, insert_id)
        elif known != insert_id:
            raise EventsError(
                f"{record.topic}@{record.offset}: version {entry.version} of {entry.originator_id} exists already",
                hint="only the recorders may write to this topic",
            )


class RecorderLog(FencedLog[RecorderDraft]):
    """The topic of an application. It is created if it does not exist, with one partition."""

    def __init__(self, cluster: Cluster, topic: str, *, timeout_s: float) -> None:
        prepare_topic(cluster, topic, partitions=1)
        limit = message_bytes_max(cluster, topic)
        content = RecorderContent(topic, limit)
        setup = LogSetup(cluster=cluster, topics=(topic,), message_bytes_max=limit, timeout_s=timeout_s)
        super().__init__(setup, 0, content)
        self.database = content.database


def _entry(row: tuple[int, str, int, int, str, bytes]) -> Entry:
    number, originator_id, is_uuid, version, type_, state = row
    return Entry(
        number=number,
        originator_id=originator_id,
        is_uuid=bool(is_uuid),
        version=version,
        type=type_,
        state=state,
    )
