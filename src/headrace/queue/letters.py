"""What a dead letter looks like: a record of its own topic, with headers that say where it was and why it died.

Names are those of KIP-1191; Headrace's broker writes the same. The reason is in «message».
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.queue.message import Place
from headrace.values import value

TOPIC_PREFIX = "dlq."
"""Of KIP-1191: a group's dead letters are in this and its name, unless another topic is set."""

TOPIC_CONFIG = {"retention.ms": "-1"}
"""What was not looked at yet should not go by its age."""

TOPIC_HEADER = "__dlq.errors.topic"
PARTITION_HEADER = "__dlq.errors.partition"
OFFSET_HEADER = "__dlq.errors.offset"
GROUP_HEADER = "__dlq.errors.group"
DELIVERY_COUNT_HEADER = "__dlq.errors.delivery.count"
REASON_HEADER = "__dlq.errors.message"
LETTER_PREFIX = "__dlq."

REDRIVE_COUNT_HEADER = "headrace.redrive.count"
"""How often a message was put back; it stays on the message, and so on its next dead letter."""

Headers = list[tuple[str, bytes | None]]


@value
class DeadLetter:
    """Where it lies, what it was, and why it died."""

    place: Place
    timestamp_ms: int
    original: Place | None
    """None if another program wrote it, without its origin."""
    group: str
    delivery_count: int
    reason: str
    redrive_count: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    """Those of the original, without what the letter added."""


def default_topic(group: str) -> str:
    return TOPIC_PREFIX + group


def letter_headers(
    original: Headers, *, place: Place, group: str, delivery_count: int, reason: str
) -> Headers:
    said = {
        TOPIC_HEADER: place.topic,
        PARTITION_HEADER: str(place.partition),
        OFFSET_HEADER: str(place.offset),
        GROUP_HEADER: group,
        DELIVERY_COUNT_HEADER: str(delivery_count),
        REASON_HEADER: reason,
    }
    # A message that was put back and died again says only how it died last.
    kept: Headers = [pair for pair in original if pair[0] not in said]
    return kept + [(name, text.encode()) for name, text in said.items()]


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
            pair
            for pair in headers
            if not pair[0].startswith(LETTER_PREFIX) and pair[0] != REDRIVE_COUNT_HEADER
        ],
    )


def redriven_headers(letter: DeadLetter) -> Headers:
    return [*letter.headers, (REDRIVE_COUNT_HEADER, str(letter.redrive_count + 1).encode())]


def _texts(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    return {name: content.decode(errors="replace") for name, content in headers if content is not None}


def _number(texts: Mapping[str, str], name: str, default: int) -> int:
    text = texts.get(name, "")
    return int(text) if text.isdecimal() else default
