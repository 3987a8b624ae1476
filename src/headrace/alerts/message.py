"""A message to people, as it is decided: values only. `rendering` makes text of it when it is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

LISTED_MAX = 50
"""Keys that a message lists; the others are counted."""


class MessageKind(StrEnum):
    FIRING = "firing"
    RESOLVED = "resolved"
    ESCALATION = "escalation"
    TEST = "test"


class ListedKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    key: Mapping[str, Any]
    firing: int
    """the number of the firing: the same in the message that resolves it"""
    since_ms: int
    fired_ms: int
    resolved_ms: int | None = None
    is_repeated: bool = False
    record: Any = None
    """the record that made it hold; cut"""


class Message(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    alert: str
    topic: str
    kind: MessageKind
    at_ms: int
    when: str = ""
    group: Mapping[str, Any] = {}
    firing: Sequence[ListedKey] = ()
    resolved: Sequence[ListedKey] = ()
    firing_count: int = 0
    resolved_count: int = 0
    """Of all keys that it is about, also those that it does not list."""
    uncounted: int = 0
    """short firings that are in no list: they had ended before a message could be sent"""
    total_firing: int = 0
    """keys of the alert that fire now"""

    @property
    def cut(self) -> int:
        """How many keys are not listed."""
        return self.firing_count + self.resolved_count - len(self.firing) - len(self.resolved)


class Waiting(Struct, frozen=True, kw_only=True):
    """A message for one target, which has not taken it yet: a record of the outbox."""

    message: Message
    target: str

    @property
    def id(self) -> tuple[str, str]:
        return self.message.id, self.target


def decoded(text: str) -> Any:
    """The record of a key, which may be cut."""
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return text


def sample(name: str, topic: str, message_id: str, per: Sequence[str], when: str, now_ms: int) -> Message:
    """For `headrace alert test`, and to check templates."""
    listed = ListedKey(
        key=dict.fromkeys(per, "sample"), firing=0, since_ms=now_ms, fired_ms=now_ms, record={"sample": True}
    )
    return Message(
        id=message_id,
        alert=name,
        topic=topic,
        kind=MessageKind.TEST,
        at_ms=now_ms,
        when=when,
        firing=(listed,),
        firing_count=1,
    )
