"""What the log has of one alert, beside its keys: positions, counts, and when its groups have messages."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from headrace.alerts.history import HistoryEvent, HistoryKind
from headrace.alerts.keys import values_from
from headrace.alerts.message import Message
from headrace.alerts.notifying import Tracked


class Counts(Struct, kw_only=True, omit_defaults=True):
    """Since the alert was added."""

    records: int = 0
    late: int = 0
    unreadable: int = 0
    keys_full: int = 0
    """records of keys beyond the limit"""
    missed: int = 0
    """records that retention deleted before they were read"""
    firings: int = 0
    messages: int = 0
    delivered: int = 0
    dead: int = 0


class Book(Struct, kw_only=True, omit_defaults=True):
    id: str
    """of the alert's definition"""
    positions: dict[str, int] = {}
    """by partition, the offset of the next record"""
    counts: Counts = field(default_factory=Counts)


class Group(Struct, frozen=True, kw_only=True, omit_defaults=True):
    last_ms: int = 0
    """of its last message"""
    due_ms: int | None = None
    """of its next message, if there is news"""


class Draft(Struct, frozen=True, kw_only=True):
    """What one transaction writes of an alert. What is None is deleted."""

    book: Book | None
    keys: Mapping[str, Tracked | None]
    groups: Mapping[str, Group | None]
    history: tuple[HistoryEvent, ...]
    messages: tuple[tuple[Message, bool], ...]
    """and whether each goes to the targets of the escalation"""


class Loaded(Struct, kw_only=True):
    """Of one alert, as the log has it."""

    book: Book | None = None
    keys: dict[str, Tracked] = {}
    groups: dict[str, Group] = {}


def removal(name: str, loaded: Loaded, now_ms: int) -> Draft:
    """Deletes everything of an alert that was removed. The history names what fired."""
    fired = (
        HistoryEvent(
            at_ms=now_ms,
            alert=name,
            event=HistoryKind.REMOVED,
            key=values_from(key),
            firing=tracked.firing.number,
        )
        for key, tracked in loaded.keys.items()
        if tracked.firing is not None
    )
    return Draft(
        book=None,
        keys=dict.fromkeys(loaded.keys),
        groups=dict.fromkeys(loaded.groups),
        history=tuple(fired),
        messages=(),
    )
