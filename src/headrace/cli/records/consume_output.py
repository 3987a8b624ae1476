"""How `headrace consume` writes a record: in a format, or by a template of kcat's (`-f '%t %p %o %k=%s\\n'`).

No broker is involved.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from msgspec import Struct

from headrace.cli.arguments import unescape
from headrace.cli.output import Shape, format_time, result
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from confluent_kafka import Message

RecordFormat = Literal["value", "text", "json", "binary"]
ContentFormat = Literal["bytes", "registry"]
Writer = Callable[["Message"], bytes]
"""A record as the bytes that are written."""


def record_writer(record_format: RecordFormat, separator: bytes | None) -> Writer:
    def as_line(message: Message) -> bytes:
        key = b"" if separator is None else plain_bytes(message.key()) + separator
        return key + plain_bytes(message.value()) + b"\n"

    writers: dict[RecordFormat, Writer] = {
        "value": as_line,
        "text": lambda message: _line(as_text(message)),
        "json": lambda message: _line(json.dumps(as_json(message), ensure_ascii=False)),
        "binary": lambda message: plain_bytes(message.value()),
    }
    return writers[record_format]


def template_writer(template: str) -> Writer:
    """Each code of the template writes what it writes in kcat."""
    pieces: list[bytes | Writer] = []
    for part in re.findall(r"%.?|[^%]+", template, re.DOTALL):
        if not part.startswith("%"):
            pieces.append(unescape(part, option="--template"))
        elif part[1:] in CODES:
            pieces.append(CODES[part[1:]])
        else:
            raise HeadraceError(
                f"--template {template!r} has an unknown code {part}",
                hint=f"the codes are {' '.join(f'%{code}' for code in CODES)}",
            )
    return lambda message: b"".join(piece if isinstance(piece, bytes) else piece(message) for piece in pieces)


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
        **json_content(message.key(), message.value(), _headers(message)),
    }


def json_content(
    key: bytes | str | None, value: bytes | str | None, headers: Iterable[tuple[str, bytes | None]]
) -> dict[str, Any]:
    return {
        **_text_or_base64("key", key),
        **_text_or_base64("value", value),
        # A list, because a name may occur twice.
        "headers": [{"name": name, **_text_or_base64("value", content)} for name, content in headers],
    }


def _text_or_base64(name: str, data: bytes | str | None) -> dict[str, str | None]:
    """A field for JSON, which has no bytes."""
    if data is None:
        return {name: None}
    try:
        return {name: plain_bytes(data).decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(plain_bytes(data)).decode()}


def plain_bytes(data: bytes | str | None) -> bytes:
    if data is None:
        return b""
    return data.encode() if isinstance(data, str) else data


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    # A message that was read always has a list; the other shapes are for messages to be sent.
    return list(cast("list[tuple[str, bytes | None]]", message.headers() or []))


def _time(message: Message) -> str | None:
    kind, timestamp_ms = message.timestamp()
    return None if kind == 0 or timestamp_ms < 0 else format_time(timestamp_ms)


def _line(text: str) -> bytes:
    return text.encode(errors="surrogateescape") + b"\n"


def _length(data: bytes | str | None) -> int:
    return -1 if data is None else len(plain_bytes(data))


def _kcat_headers(message: Message) -> bytes:
    return b",".join(
        name.encode() + b"=" + (b"NULL" if value is None else value) for name, value in _headers(message)
    )


CODES: dict[str, bytes | Writer] = {
    "s": lambda message: plain_bytes(message.value()),
    "S": lambda message: b"%d" % _length(message.value()),
    "R": lambda message: struct.pack(">i", _length(message.value())),
    "k": lambda message: plain_bytes(message.key()),
    "K": lambda message: b"%d" % _length(message.key()),
    "t": lambda message: (message.topic() or "").encode(),
    "p": lambda message: b"%d" % (message.partition() or 0),
    "o": lambda message: b"%d" % (message.offset() or 0),
    "T": lambda message: b"%d" % message.timestamp()[1],
    "h": _kcat_headers,
    "%": b"%",
}
