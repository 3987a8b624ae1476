"""What the log of one partition says about its aggregates: events, outcomes of commands, snapshots."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from headrace.events.errors import EventsError
from headrace.events.log_database import LogDatabase
from headrace.events.records import Rejection, Snapshot, StoredEvent

ROWS_FETCHED = 1000
"""Events that are in memory at a time while an aggregate is replayed."""

_SCHEMA = """
CREATE TABLE events (
    aggregate_id TEXT, version INT, offset INT, timestamp_ms INT, id TEXT, body BLOB,
    PRIMARY KEY (aggregate_id, version)
) WITHOUT ROWID;
CREATE TABLE outcomes (
    aggregate_id TEXT, command_id TEXT, first INT, last INT, rejection BLOB,
    PRIMARY KEY (aggregate_id, command_id)
) WITHOUT ROWID;
CREATE TABLE snapshots (aggregate_id TEXT PRIMARY KEY, version INT, body BLOB) WITHOUT ROWID;
"""


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of a command: its events are those from `first` to `last`, or it was rejected."""

    first: int
    last: int
    rejection: Rejection | None


class Index(LogDatabase):
    def __init__(self) -> None:
        super().__init__(_SCHEMA)

    # Changes

    def add_event(self, event: StoredEvent) -> None:
        """EventsError if it is not the next one of its aggregate."""
        version = self.version(event.aggregate_id)
        if event.version != version + 1:
            raise EventsError(
                f"the log has version {event.version} of {event.aggregate_id} (offset {event.offset})"
                f" after version {version}",
                hint="only its store may write to this topic; restore it from before that offset",
            )
        row = (event.aggregate_id, event.version, event.offset, event.timestamp_ms, event.id)
        self._database.execute(
            "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", (*row, msgspec.msgpack.encode(event))
        )
        if event.causation_id:
            self._database.execute(
                "INSERT INTO outcomes VALUES (?, ?, ?, ?, NULL)"
                " ON CONFLICT DO UPDATE SET last = excluded.last, rejection = NULL,"
                " first = CASE WHEN rejection IS NULL THEN first ELSE excluded.first END",
                (event.aggregate_id, event.causation_id, event.version, event.version),
            )

    def set_offset(self, aggregate_id: str, version: int, offset: int) -> None:
        """An event of this process has its offset only when the broker has acknowledged it."""
        self._database.execute(
            "UPDATE events SET offset = ? WHERE aggregate_id = ? AND version = ?",
            (offset, aggregate_id, version),
        )

    def add_rejection(self, rejection: Rejection) -> None:
        self._database.execute(
            "INSERT INTO outcomes VALUES (?, ?, 0, 0, ?)"
            " ON CONFLICT DO UPDATE SET rejection = excluded.rejection WHERE last = 0",
            (rejection.aggregate_id, rejection.command_id, msgspec.msgpack.encode(rejection)),
        )

    def set_snapshot(self, snapshot: Snapshot) -> None:
        self._database.execute(
            "REPLACE INTO snapshots VALUES (?, ?, ?)",
            (snapshot.aggregate_id, snapshot.version, msgspec.msgpack.encode(snapshot)),
        )

    def delete_snapshot(self, aggregate_id: str) -> None:
        self._database.execute("DELETE FROM snapshots WHERE aggregate_id = ?", (aggregate_id,))

    # Questions

    def version(self, aggregate_id: str) -> int:
        """0 for an aggregate without events."""
        found = self._one("SELECT max(version) FROM events WHERE aggregate_id = ?", aggregate_id)
        return (found and found[0]) or 0

    def timestamp_ms(self, aggregate_id: str) -> int:
        """Of the last event; 0 without events."""
        found = self._one(
            "SELECT timestamp_ms FROM events WHERE aggregate_id = ? ORDER BY version DESC LIMIT 1",
            aggregate_id,
        )
        return found[0] if found else 0

    def has_event(self, event: StoredEvent) -> bool:
        found = self._one(
            "SELECT id FROM events WHERE aggregate_id = ? AND version = ?", event.aggregate_id, event.version
        )
        return found is not None and found[0] == event.id

    def events(self, aggregate_id: str, *, after: int = 0, until: int | None = None) -> Iterator[StoredEvent]:
        """In the order of versions, without the first `after` and up to `until`."""
        cursor = self._database.execute(
            "SELECT offset, body FROM events WHERE aggregate_id = ? AND version > ? AND version <= ?"
            " ORDER BY version",
            (aggregate_id, after, 2**62 if until is None else until),
        )
        while rows := cursor.fetchmany(ROWS_FETCHED):
            for offset, body in rows:
                event = msgspec.msgpack.decode(body, type=StoredEvent)
                yield event if event.offset == offset else msgspec.structs.replace(event, offset=offset)

    def version_at_offset(self, aggregate_id: str, offset: int) -> int:
        """The last version whose record is at the offset or before it."""
        found = self._one(
            "SELECT max(version) FROM events WHERE aggregate_id = ? AND offset <= ?", aggregate_id, offset
        )
        return (found and found[0]) or 0

    def version_at_time(self, aggregate_id: str, timestamp_ms: int) -> int:
        """The last version that was written at the time or before it."""
        found = self._one(
            "SELECT max(version) FROM events WHERE aggregate_id = ? AND timestamp_ms <= ?",
            aggregate_id,
            timestamp_ms,
        )
        return (found and found[0]) or 0

    def outcome(self, aggregate_id: str, command_id: str) -> Outcome | None:
        found = self._one(
            "SELECT first, last, rejection FROM outcomes WHERE aggregate_id = ? AND command_id = ?",
            aggregate_id,
            command_id,
        )
        if found is None:
            return None
        first, last, body = found
        rejection = None if body is None else msgspec.msgpack.decode(body, type=Rejection)
        return Outcome(first=first, last=last, rejection=rejection)

    def rejections(self, aggregate_id: str | None = None) -> list[Rejection]:
        """Those of an aggregate (None: of all), in the order of their time."""
        rows = self._database.execute(
            "SELECT rejection FROM outcomes WHERE rejection IS NOT NULL AND aggregate_id = ifnull(?, aggregate_id)",
            (aggregate_id,),
        )
        found = [msgspec.msgpack.decode(row[0], type=Rejection) for row in rows]
        return sorted(found, key=lambda each: each.timestamp_ms)

    def snapshot(self, aggregate_id: str) -> Snapshot | None:
        """The last one, unless the log has fewer events: then it belongs to another log."""
        found = self._one("SELECT version, body FROM snapshots WHERE aggregate_id = ?", aggregate_id)
        if found is None or found[0] > self.version(aggregate_id):
            return None
        return msgspec.msgpack.decode(found[1], type=Snapshot)

    def aggregate_ids(self) -> list[str]:
        rows = self._database.execute("SELECT DISTINCT aggregate_id FROM events ORDER BY aggregate_id")
        return [row[0] for row in rows]
