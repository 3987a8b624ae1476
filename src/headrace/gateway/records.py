"""Records in memory, and what clients get of them as JSON."""

from __future__ import annotations

import base64
from enum import StrEnum
from typing import Any, cast

import msgspec
from confluent_kafka import Message
from msgspec import Raw, Struct

Headers = list[tuple[str, bytes | None]]


class Format(StrEnum):
    """Of values. Keys and headers are text, except in base64."""

    JSON = "json"
    TEXT = "text"
    BASE64 = "base64"


class NewRecord(Struct, frozen=True, kw_only=True):
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: list[tuple[str, str | bytes | None]] = []


class Record(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @classmethod
    def of(cls, message: Message) -> Record:
        """Of a message that is no error."""
        return cls(
            topic=cast("str", message.topic()),
            partition=cast("int", message.partition()),
            offset=cast("int", message.offset()),
            timestamp_ms=message.timestamp()[1],
            key=message.key(),
            value=message.value(),
            headers=cast("Headers", message.headers() or []),
        )

    @property
    def size_bytes(self) -> int:
        """About what it costs in memory."""
        headers = sum(len(name) + len(value or b"") for name, value in self.headers)
        return RECORD_BYTES + len(self.key or b"") + len(self.value or b"") + headers


RECORD_BYTES = 300
"""Of a record without its content: the objects."""

_VALID_JSON = msgspec.json.Decoder()
_LINE_BREAKS = bytes.maketrans(b"\r\n", b"  ")


def encoded(record: Record, format: Format) -> bytes:
    """JSON without line breaks. What does not have the format is in base64, in a field of another name."""
    found: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
    }
    of_text = Format.BASE64 if format is Format.BASE64 else Format.TEXT
    _add(found, "key", record.key, of_text)
    _add(found, "value", record.value, format)
    if record.headers:
        found["headers"] = [_header(name, value, of_text) for name, value in record.headers]
    return msgspec.json.encode(found)


def _header(name: str, value: bytes | None, format: Format) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name}
    _add(found, "value", value, format)
    return found


def _add(found: dict[str, Any], name: str, content: bytes | None, format: Format) -> None:
    try:
        found[name] = None if content is None else _as(content, format)
    except (ValueError, msgspec.DecodeError, RecursionError):
        found[name] = None
        found[f"{name}_base64"] = base64.b64encode(content or b"").decode()


def _as(content: bytes, format: Format) -> Any:
    match format:
        case Format.JSON:
            _VALID_JSON.decode(content)
            return Raw(content.translate(_LINE_BREAKS))  # only between tokens: a string has none
        case Format.TEXT:
            return content.decode()
        case Format.BASE64:
            return base64.b64encode(content).decode()
