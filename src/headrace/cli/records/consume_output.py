"""How `headrace consume` writes a record. Bytes in, bytes out; no broker is involved."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, cast

from msgspec import Struct

from headrace.cli.output import Shape, format_time, result

if TYPE_CHECKING:
    from confluent_kafka import Message


class RecordFormat(StrEnum):
    VALUE = "value"
    TEXT = "text"
    JSON = "json"
    BINARY = "binary"


def record_writer(
    record_format: RecordFormat, stream: BinaryIO, separator: bytes | None
) -> Callable[[Message], None]:
    """A function that writes one record to the stream in this format."""

    def write_value(message: Message) -> None:
        prefix = b"" if separator is None else plain_bytes(message.key()) + separator
        stream.write(prefix + plain_bytes(message.value()) + b"\n")

    writers: dict[RecordFormat, Callable[[Message], None]] = {
        RecordFormat.VALUE: write_value,
        RecordFormat.TEXT: lambda message: _write_line(stream, as_text(message)),
        RecordFormat.JSON: lambda message: _write_line(
            stream, json.dumps(as_json(message), ensure_ascii=False)
        ),
        RecordFormat.BINARY: lambda message: _write(stream, plain_bytes(message.value())),
    }
    return writers[record_format]


def as_text(message: Message) -> str:
    """2026-11-15T10:35:12.123Z clicks-0@42 key: value"""
    key, value = message.key(), message.value()
    shown_key = "" if key is None else f" {plain_bytes(key).decode(errors='backslashreplace')}:"
    shown_value = "(null)" if value is None else plain_bytes(value).decode(errors="backslashreplace")
    place = f"{message.topic()}-{message.partition()}@{message.offset()}"
    return f"{_time(message) or '-'} {place}{shown_key} {shown_value}"


class JsonHeader(Struct, frozen=True, kw_only=True):
    name: str
    value: Annotated[str | None, "null: a header without a value"] = None
    value_base64: Annotated[str | None, "instead of the value, if it is not UTF-8"] = None


@result("consume", shape=Shape.LINES)
class JsonRecord(Struct, frozen=True, kw_only=True):
    """What `as_json` returns."""

    topic: str
    partition: int
    offset: int
    timestamp: Annotated[str | None, "ISO 8601 in UTC, with milliseconds; null: none"]
    headers: Annotated[list[JsonHeader], "in their order; a name may occur twice"]
    key: Annotated[str | None, "null: a record without a key"] = None
    key_base64: Annotated[str | None, "instead of the key, if it is not UTF-8"] = None
    value: Annotated[str | None, "null: a tombstone"] = None
    value_base64: Annotated[str | None, "instead of the value, if it is not UTF-8"] = None


def as_json(message: Message) -> dict[str, Any]:
    """All fields of a record; values that are not UTF-8 are in `..._base64` instead."""
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": _time(message),
        **text_or_base64("key", message.key()),
        **text_or_base64("value", message.value()),
        # A list, because a name may occur twice.
        "headers": [{"name": name, **text_or_base64("value", value)} for name, value in headers_of(message)],
    }


def headers_of(message: Message) -> list[tuple[str, bytes | None]]:
    # A message that was read always has a list; the other shapes are for messages to be sent.
    return list(cast("list[tuple[str, bytes | None]]", message.headers() or []))


def text_or_base64(name: str, data: bytes | str | None) -> dict[str, str | None]:
    """A field for JSON, which has no bytes."""
    if data is None:
        return {name: None}
    try:
        return {name: plain_bytes(data).decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(plain_bytes(data)).decode()}


def _time(message: Message) -> str | None:
    kind, timestamp_ms = message.timestamp()
    return None if kind == 0 or timestamp_ms < 0 else format_time(timestamp_ms)


def plain_bytes(data: bytes | str | None) -> bytes:
    if data is None:
        return b""
    return data.encode() if isinstance(data, str) else data


def _write_line(stream: BinaryIO, line: str) -> None:
    stream.write(line.encode(errors="surrogateescape") + b"\n")


def _write(stream: BinaryIO, data: bytes) -> None:
    stream.write(data)
