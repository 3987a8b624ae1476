"""The topic `headrace.alerts`: each change of a key, and each notification with its outcome, as JSON."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster

HISTORY_TOPIC = "headrace.alerts"

HISTORY_CONFIG = {"cleanup.policy": "delete", "retention.ms": str(365 * 86_400_000)}
"""A year: people ask what happened last winter."""


class HistoryKind(StrEnum):
    PENDING = "pending"
    CANCELLED = "cancelled"
    FIRING = "firing"
    RESOLVED = "resolved"
    REMOVED = "removed"
    """it fired when its alert was removed"""
    SILENCED = "silenced"
    SUPPRESSED = "suppressed"
    ESCALATED = "escalated"
    ACKNOWLEDGED = "acknowledged"
    UNREADABLE = "unreadable"
    """a record for which the condition can't be evaluated"""
    KEYS_FULL = "keys full"
    """a record of a new key, while the alert has as many keys as it may have"""
    MISSED = "missed"
    """records that retention deleted before they were read"""
    NOTIFYING = "notifying"
    """a message was decided"""
    RETRYING = "retrying"
    DELIVERED = "delivered"
    DEAD = "dead"
    """a message that a target never took"""


class HistoryEvent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    at_ms: int
    alert: str
    event: HistoryKind
    key: Mapping[str, Any] | None = None
    firing: int | None = None
    since_ms: int | None = None
    by: str = ""
    reason: str = ""
    message: str = ""
    """its id"""
    kind: str = ""
    """of the message"""
    target: str = ""
    """without user and password"""
    attempt: int | None = None
    firing_count: int | None = None
    resolved_count: int | None = None
    text: str = ""
    """of a dead message: its text"""


def read_history(
    cluster: Cluster, *, wanted: Callable[[HistoryEvent], bool], limit: int
) -> list[HistoryEvent]:
    """The last events that are wanted; empty if no alert has run yet."""
    from headrace.kafka.committed import read_committed

    found: deque[HistoryEvent] = deque(maxlen=limit)
    if HISTORY_TOPIC not in cluster.topics():
        return []
    for message in read_committed(cluster, HISTORY_TOPIC):
        try:
            event = msgspec.json.decode(message.value() or b"", type=HistoryEvent)
        except msgspec.DecodeError:
            continue  # a record of another writer
        if wanted(event):
            found.append(event)
    return list(found)
