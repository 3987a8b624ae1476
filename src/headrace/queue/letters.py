"""The dead letters of queues and jobs as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.dead_letters import (
    DELIVERY_COUNT_HEADER,
    GROUP_HEADER,
    OFFSET_HEADER,
    OPERATOR_HEADER,
    PARTITION_HEADER,
    REASON_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
    TRUNCATED_HEADER,
    Header,
    is_error_header,
    with_errors,
)
from headrace.queue.message import MessageId, headers_of, id_of
from headrace.queue.reply_to import REQUEST_HEADERS

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage

REDRIVE_COUNT_HEADER = "headrace.redrive.count"
"""How often a message was redriven; it stays on the message, and so on its next dead letter."""

Headers = list[Header]


class DeadLetter(Struct, frozen=True, kw_only=True):
    """A record of the dead-letter topic: the original message, and why it was rejected."""

    id: MessageId
    timestamp_ms: int
    original: MessageId | None
    """None if the letter has no single origin: a row that a sink rejected, or a letter of another program."""
    original_time: str
    """The timestamp of the original, in UTC; empty if the letter does not state it. Letters of jobs do."""
    group: str
    delivery_count: int
    reason: str
    redrive_count: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    """Those of the original, without what the letter added."""
    is_whole: bool
    """Whether it has the value of the original: a large one is truncated, and a late row is JSON of its columns."""

    @property
    def can_be_redriven(self) -> bool:
        return self.original is not None and self.is_whole

    @property
    def record(self) -> str | None:
        """Identifies the original record, also if its topic is deleted and created again; None if that is unknown.

        Letters of queues do not identify it: what one group rejects, another one may accept.
        """
        return f"{self.original} {self.original_time}" if self.original and self.original_time else None


def letter_headers(
    headers: Headers, *, original: MessageId, group: str, delivery_count: int, reason: str
) -> Headers:
    errors = {
        TOPIC_HEADER: original.topic,
        PARTITION_HEADER: str(original.partition),
        OFFSET_HEADER: str(original.offset),
        GROUP_HEADER: group,
        DELIVERY_COUNT_HEADER: str(delivery_count),
        REASON_HEADER: reason,
    }
    return [*with_errors(headers, errors)]


def read_letter(raw: KafkaMessage) -> DeadLetter:
    headers = headers_of(raw)
    texts = {name: content.decode(errors="replace") for name, content in headers if content is not None}
    topic = texts.get(TOPIC_HEADER)
    return DeadLetter(
        id=id_of(raw),
        timestamp_ms=raw.timestamp()[1],
        original=None
        if topic is None
        else MessageId(topic, _number(texts, PARTITION_HEADER, -1), _number(texts, OFFSET_HEADER, -1)),
        original_time=texts.get(TIMESTAMP_HEADER, ""),
        group=texts.get(GROUP_HEADER, ""),
        delivery_count=_number(texts, DELIVERY_COUNT_HEADER, 0),
        reason=texts.get(REASON_HEADER, ""),
        redrive_count=_number(texts, REDRIVE_COUNT_HEADER, 0),
        key=raw.key(),
        value=raw.value(),
        is_whole=not texts.keys() & {TRUNCATED_HEADER, OPERATOR_HEADER},
        headers=[
            pair for pair in headers if not is_error_header(pair[0]) and pair[0] != REDRIVE_COUNT_HEADER
        ],
    )


def redriven_headers(letter: DeadLetter) -> Headers:
    """Without those of a request: nobody waits for its reply, and a request after its deadline is not processed."""
    kept = (pair for pair in letter.headers if pair[0] not in REQUEST_HEADERS)
    return [*kept, (REDRIVE_COUNT_HEADER, str(letter.redrive_count + 1).encode())]


def _number(texts: Mapping[str, str], name: str, default: int) -> int:
    text = texts.get(name, "")
    return int(text) if text.isdecimal() else default
