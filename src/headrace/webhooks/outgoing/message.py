"""A record on its way to a target: its id, and the body of its requests.

The id is the same at every attempt, also after a restart, and in the dead letter that is redriven: receivers recognise
by it what they have already.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from confluent_kafka import Message as KafkaMessage
from msgspec import Raw, Struct

from headrace.queue.message import MessageId, headers_of, id_of
from headrace.webhooks.outgoing.target import Envelope, Target

REDRIVEN_FOR_HEADER = "headrace.webhook.target"
"""A record that was redriven from the dead letters of this target. Other targets of its topic have had it."""
REDRIVEN_ID_HEADER = "headrace.webhook.id"

OBJECT_BYTES = 600
"""Of a message in memory besides its content."""

_ID_BYTES = 15
_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_BYTES = "application/octet-stream"
_CLOUD_EVENT = "application/cloudevents+json"
_CE_PREFIX = "ce_"
_VALID = msgspec.json.Decoder(Raw)
_DECODER = msgspec.json.Decoder()

Headers = Sequence[tuple[str, bytes | None]]


class Outgoing(Struct, kw_only=True):
    """A record and what became of it so far."""

    message_id: str
    origin: MessageId
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    attempts: int = 0
    failing_since_ms: int = 0
    """By the monotonic clock; it has a meaning after the first failed attempt."""
    problem: str = ""
    """Why it can't be delivered at all: it becomes a dead letter without an attempt."""
    is_forgotten: bool = False
    """Its partition belongs to another process now."""

    @property
    def memory_bytes(self) -> int:
        headers = sum(len(name) + len(content or b"") for name, content in self.headers)
        return OBJECT_BYTES + len(self.key or b"") + len(self.value or b"") + headers


class Request(Struct, frozen=True, kw_only=True):
    body: bytes
    content_type: str


def outgoing(raw: KafkaMessage, target: Target) -> Outgoing:
    origin, headers, timestamp_ms = id_of(raw), headers_of(raw), raw.timestamp()[1]
    redriven = _text(headers, REDRIVEN_ID_HEADER) if is_redriven_for(headers) == target.name else None
    return Outgoing(
        message_id=redriven or message_id(target.name, origin, timestamp_ms),
        origin=origin,
        timestamp_ms=timestamp_ms,
        key=raw.key(),
        value=raw.value(),
        headers=headers,
    )


def message_id(target: str, origin: MessageId, timestamp_ms: int) -> str:
    """The time is part of it, because a topic that is created again has the same offsets."""
    place = msgspec.json.encode((target, origin.topic, origin.partition, origin.offset, timestamp_ms))
    digest = hashlib.blake2b(place, digest_size=_ID_BYTES).digest()
    return "msg_" + base64.urlsafe_b64encode(digest).decode()


def is_redriven_for(headers: Headers) -> str | None:
    """The target whose dead letter this record was."""
    return _text(headers, REDRIVEN_FOR_HEADER)


def json_object(value: bytes) -> Mapping[str, Any] | None:
    """None if the value is not a JSON object."""
    try:
        found = _DECODER.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def request_of(message: Outgoing, envelope: Envelope) -> Request:
    if envelope == "cloudevents":
        return Request(body=_cloud_event(message), content_type=_CLOUD_EVENT)
    value = message.value or b""
    return Request(body=value, content_type=_content_type(message.headers, value))


def _content_type(headers: Headers, value: bytes) -> str:
    given = _text(headers, "content-type")
    if given and given.isprintable() and given.isascii() and len(given) <= 200:
        return given
    if _is_json(value):
        return _JSON
    try:
        value.decode()
    except UnicodeDecodeError:
        return _BYTES
    return _TEXT


def _cloud_event(message: Outgoing) -> bytes:
    """CloudEvents 1.0 in JSON. A record that is an event in Kafka's binding keeps its attributes, also its id."""
    own = {
        name.removeprefix(_CE_PREFIX): (content or b"").decode(errors="replace")
        for name, content in message.headers
        if name.startswith(_CE_PREFIX)
    }
    time = datetime.fromtimestamp(max(0, message.timestamp_ms) / 1000, UTC)
    event: dict[str, Any] = {
        "specversion": "1.0",
        "id": message.message_id,
        "source": f"/topics/{message.origin.topic}",
        "type": "headrace.record",
        "time": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    if message.key is not None and (key := _decoded(message.key)):
        event["partitionkey"] = key
    event |= own
    value = message.value
    if value is None:
        return msgspec.json.encode(event)
    content_type = _content_type(message.headers, value)
    event["datacontenttype"] = content_type
    if "json" in content_type and _is_json(value):
        event["data"] = Raw(value)
    elif content_type.startswith("text/") and (text := _decoded(value)) is not None:
        event["data"] = text
    else:
        event["data_base64"] = base64.b64encode(value).decode()
    return msgspec.json.encode(event)


def _is_json(value: bytes) -> bool:
    try:
        _VALID.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _decoded(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _text(headers: Headers, name: str) -> str | None:
    for each, content in headers:
        if each.lower() == name and content is not None:
            return _decoded(content)
    return None
