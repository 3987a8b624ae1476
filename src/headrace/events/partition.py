"""One partition of a store: how events, rejected commands and snapshots enter its index, from the log and in drafts."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headrace.events.errors import EventsError
from headrace.events.fenced_log import FencedLog
from headrace.events.followed_log import LogSetup
from headrace.events.index import Index
from headrace.events.partitioner import partition_of
from headrace.events.records import (
    InRecord,
    OutRecord,
    Rejection,
    Snapshot,
    StoredEvent,
    Topics,
    event_record,
    read_event,
    read_rejection,
    read_snapshot,
    rejection_record,
    snapshot_record,
)

logger = logging.getLogger("headrace.events")


class EventDraft:
    """The events, rejections and snapshots of one transaction, and other records such as replies."""

    def __init__(self, topics: Topics, index: Index) -> None:
        self._topics = topics
        self._index = index
        self.records: list[OutRecord] = []
        self.events: list[tuple[int, StoredEvent]] = []
        """With the number of its record."""
        self.rejections: list[Rejection] = []

    def add_event(self, event: StoredEvent) -> None:
        self._index.add_event(event)
        self.events.append((len(self.records), event))
        self.records.append(event_record(self._topics.events, event))

    def add_rejection(self, rejection: Rejection) -> None:
        self._index.add_rejection(rejection)
        self.rejections.append(rejection)
        self.records.append(rejection_record(self._topics.rejected, rejection))

    def add_snapshot(self, snapshot: Snapshot, timestamp_ms: int) -> None:
        self._index.set_snapshot(snapshot)
        self.records.append(snapshot_record(self._topics.snapshots, snapshot, timestamp_ms))


class EventContent:
    """A partition of the topics of events, rejections and snapshots, and its index."""

    def __init__(self, topics: Topics, *, number: int, partitions: int) -> None:
        self.database = Index()
        self._topics = topics
        self._number = number
        self._partitions = partitions

    def draft(self) -> EventDraft:
        return EventDraft(self._topics, self.database)

    def on_committed(self, draft: EventDraft, offsets: Sequence[int]) -> None:
        for number, event in draft.events:
            self.database.set_offset(event.aggregate_id, event.version, offsets[number])

    def has(self, draft: EventDraft) -> bool:
        if draft.events:
            return self.database.has_event(draft.events[0][1])
        return any(
            self.database.outcome(each.aggregate_id, each.command_id) is not None
            for each in draft.rejections[:1]
        )

    def apply(self, record: InRecord) -> None:
        if record.topic == self._topics.events:
            self._apply_event(record)
        elif record.topic == self._topics.rejected:
            self.database.add_rejection(read_rejection(record))
        else:
            self._apply_snapshot(record)

    def _apply_event(self, record: InRecord) -> None:
        event = read_event(record)
        if partition_of(record.key or b"", self._partitions) != self._number:
            raise EventsError(
                f"{record.topic}-{self._number}@{record.offset}: {event.aggregate_id} belongs to another partition",
                hint="an event store keeps its number of partitions, because keys would move; copy it to a new topic",
            )
        if not self.database.has_event(event):
            self.database.add_event(event)

    def _apply_snapshot(self, record: InRecord) -> None:
        if record.value is None:
            self.database.delete_snapshot((record.key or b"").decode(errors="replace"))
            return
        try:
            self.database.set_snapshot(read_snapshot(record))
        except EventsError as error:
            logger.warning("a snapshot is ignored: %s", error)


class Partition(FencedLog[EventDraft]):
    """One partition of a store."""

    def __init__(self, setup: LogSetup, topics: Topics, *, number: int, partitions: int) -> None:
        content = EventContent(topics, number=number, partitions=partitions)
        super().__init__(setup, number, content)
        self.index = content.database
