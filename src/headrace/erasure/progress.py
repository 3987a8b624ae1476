"""How far an erasure is: the values that the ledger keeps and the report shows."""

from __future__ import annotations

import hashlib
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from headrace.erasure.subject import Subject


class TopicState(StrEnum):
    PENDING = "pending"
    COMPACTING = "compacting"
    """tombstones are written; compaction has not removed all values yet"""
    RETENTION = "waits for retention"
    """only retention removes records of this topic"""
    KEPT = "kept"
    """nothing removes records of this topic"""
    COMPLETE = "complete"


class TopicProgress(Struct, frozen=True, kw_only=True):
    topic: str
    state: TopicState = TopicState.PENDING
    policy: str = ""
    is_archived: bool = False
    records_found: int = 0
    """with a value, by the first scan"""
    tombstones: int = 0
    written_again: int = 0
    """keys that got a new value after their tombstone"""
    values_left: int = 0
    """by the last scan"""
    verified: dict[str, tuple[int, int]] = {}
    """partition -> the offsets that the last scan read: the first one, and the end"""
    complete_ms: int | None = None
    until_ms: int | None = None
    """when retention will have deleted the records"""
    files_until_ms: int | None = None
    """when the broker deletes the files that compaction replaced"""
    tombstones_until_ms: int | None = None
    """when compaction may remove the tombstones, which have the key, at the earliest"""
    settings: dict[str, str | None] | None = None
    """topic configs to restore, because the erasure has changed them; None: its default"""
    note: str = ""


class PlaceProgress(Struct, frozen=True, kw_only=True):
    name: str
    found: int = 0
    left: int | None = None
    """None before it was erased there"""
    complete_ms: int | None = None


class ErasureState(StrEnum):
    OPEN = "open"
    WAITING = "waiting"
    """done, except for topics whose records only retention deletes, or nothing"""
    COMPLETE = "complete"


class Erasure(Struct, frozen=True, kw_only=True):
    """A request and its progress: the value of a record of the ledger."""

    id: str
    subject: Subject | None
    """None when it is complete: the ledger must not keep the key of an erased person"""
    digest: str
    """SHA-256 of the id and the key, so that who knows the key can find its erasure"""
    requested_ms: int
    topics: tuple[TopicProgress, ...]
    places: tuple[PlaceProgress, ...] = ()
    deletes_records: bool = False
    complete_ms: int | None = None

    @property
    def state(self) -> ErasureState:
        states = {each.state for each in self.topics}
        if states & {TopicState.PENDING, TopicState.COMPACTING} or any(
            each.complete_ms is None for each in self.places
        ):
            return ErasureState.OPEN
        return ErasureState.COMPLETE if states <= {TopicState.COMPLETE} else ErasureState.WAITING

    def with_topic(self, changed: TopicProgress) -> Erasure:
        return replace(
            self, topics=tuple(changed if each.topic == changed.topic else each for each in self.topics)
        )

    def with_place(self, changed: PlaceProgress) -> Erasure:
        return replace(
            self, places=tuple(changed if each.name == changed.name else each for each in self.places)
        )

    def closed(self, now_ms: int) -> Erasure:
        """Without the key, once nothing is left to do."""
        if self.state is not ErasureState.COMPLETE or self.complete_ms is not None:
            return self
        return replace(self, subject=None, complete_ms=now_ms)


def digest_of(erasure_id: str, subject: Subject) -> str:
    return hashlib.sha256(f"{erasure_id}:{subject.key}".encode()).hexdigest()
