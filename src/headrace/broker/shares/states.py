"""The states that a record of a share group can be in, and the table of what moves it from one to another."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum
from types import MappingProxyType


class RecordState(IntEnum):
    """The numbers are those of Kafka's stored state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """It is never delivered again, and its dead letter is not known to be durable."""
    ARCHIVED = 4


FINAL_STATES = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})


class Trigger(Enum):
    """What can move a record; the value is its text in the diagram of the docs."""

    ACQUIRE = "a member gets it, locked"
    ACCEPT = "accepted"
    RELEASE = "released"
    RENEW = "lock renewed"
    EXPIRE = "the lock expires"
    ABANDON = "its member leaves or its connection breaks"
    REJECT = "rejected, or past its delivery limit"
    ARCHIVE = "the same, in a group with a dead-letter topic"
    LETTER_WRITTEN = "its dead letter is written"
    SKIP = "there is nothing to deliver (compacted, aborted or a control record)"


TRANSITIONS: Mapping[tuple[RecordState, Trigger], RecordState] = MappingProxyType(
    {
        (RecordState.AVAILABLE, Trigger.ACQUIRE): RecordState.ACQUIRED,
        (RecordState.AVAILABLE, Trigger.SKIP): RecordState.ARCHIVED,
        (RecordState.ACQUIRED, Trigger.ACCEPT): RecordState.ACKNOWLEDGED,
        (RecordState.ACQUIRED, Trigger.RELEASE): RecordState.AVAILABLE,
        (RecordState.ACQUIRED, Trigger.EXPIRE): RecordState.AVAILABLE,
        (RecordState.ACQUIRED, Trigger.ABANDON): RecordState.AVAILABLE,
        (RecordState.ACQUIRED, Trigger.RENEW): RecordState.ACQUIRED,
        (RecordState.ACQUIRED, Trigger.REJECT): RecordState.ARCHIVED,
        (RecordState.ACQUIRED, Trigger.SKIP): RecordState.ARCHIVED,
        (RecordState.ACQUIRED, Trigger.ARCHIVE): RecordState.ARCHIVING,
        (RecordState.ARCHIVING, Trigger.LETTER_WRITTEN): RecordState.ARCHIVED,
    }
)
