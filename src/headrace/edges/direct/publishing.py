"""Records of a topic as messages: numbered packets, or plain frames. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from confluent_kafka import Message

from headrace.edges.direct.carried import without_feed
from headrace.edges.direct.packet import NumberedEvent
from headrace.edges.direct.transport import Frames
from headrace.edges.event import DROPPED_HEADER, Event, Headers


def numbered_event(message: Message) -> NumberedEvent:
    """The number of an event is its offset."""
    headers = cast("Headers", tuple(message.headers() or ()))
    return NumberedEvent(
        number=message.offset() or 0,
        timestamp_ms=max(message.timestamp()[1], 0),
        key=message.key(),
        value=message.value(),
        headers=without_feed(headers) if headers else (),
    )


def plain_frames(message: Message) -> Frames:
    """The key, if there is one, and the value, as subscribers of other makers expect it."""
    key, value = message.key(), message.value() or b""
    return (value,) if key is None else (key, value)


def plain_event(topic: str, frames: Sequence[bytes], *, dropped: int = 0) -> Event:
    """The last frame is the value, the first of several the key; those between are headers. `dropped` is how many
    messages the kernel dropped before it."""
    key = frames[0] if len(frames) > 1 else None
    headers: list[tuple[str, bytes | None]] = []
    headers += [(f"frame.{number}", frame) for number, frame in enumerate(frames[1:-1], 1)]
    if dropped:
        headers.append((DROPPED_HEADER, b"%d" % dropped))
    return Event(topic=topic, key=key, value=frames[-1], headers=tuple(headers))
