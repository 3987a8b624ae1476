"""The dead letters of a queue as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from headrace.dead_letters import (
    DELIVERY_COUNT_HEADER,
    GROUP_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    REASON_HEADER,
    TOPIC_HEADER,
    Header,
    is_error_header,
    with_errors,
)
from headrace.queue.message import Place

REDRIVE_COUNT_HEADER = "headrace.redrive.count"
"""How often a message was redriven; it stays on the message, and so on its next dead letter."""

Headers = list[Header]


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A record of the dead-letter topic: the original message, and why it was rejected."""

    place: Place
    timestamp_ms: int
    original: Place | None
    """None if another program wrote the letter without its origin."""
    group: str
    delivery_count: int
    reason: str
    redrive_count: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    """Those of the original, without what the letter added."""


def letter_headers(
    original: Headers, *, place: Place, group: str, delivery_count: int, reason: str
) -> Headers:
    errors = {
        TOPIC_HEADER: place.topic,
        PARTITION_HEADER: str(place.partition),
        OFFSET_HEADER: str(place.offset),
        GROUP_HEADER: group,
        DELIVERY_COUNT_HEADER: str(delivery_count),
        REASON_HEADER: reason,
    }
    return [*with_errors(original, errors)]


def read_letter(
    *, place: Place, timestamp_ms: int, key: bytes | None, content: bytes | None, headers: Headers
) -> DeadLetter:
    texts = _texts(headers)
    topic = texts.get(TOPIC_HEADER)
    return DeadLetter(
        place=place,
        timestamp_ms=timestamp_ms,
        original=None
        if topic is None
        else Place(topic, _number(texts, PARTITION_HEADER, -1), _number(texts, OFFSET_HEADER, -1)),
        group=texts.get(GROUP_HEADER, ""),
        delivery_count=_number(texts, DELIVERY_COUNT_HEADER, 0),
        reason=texts.get(REASON_HEADER, ""),
        redrive_count=_number(texts, REDRIVE_COUNT_HEADER, 0),
        key=key,
        value=content,
        headers=[
            pair for pair in headers if not is_error_header(pair[0]) and pair[0] != REDRIVE_COUNT_HEADER
        ],
    )


def redriven_headers(letter: DeadLetter) -> Headers:
    return [*letter.headers, (REDRIVE_COUNT_HEADER, str(letter.redrive_count + 1).encode())]


def _texts(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    return {name: content.decode(errors="replace") for name, content in headers if content is not None}


def _number(texts: Mapping[str, str], name: str, default: int) -> int:
    text = texts.get(name, "")
    return int(text) if text.isdecimal() else default
