"""The key and the group of a record, and the part of it that messages show: all bounded."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from headrace.conditions import field_at

VALUE_CHARS_MAX = 200
"""Of one field in a key. A longer value is cut, and has a digest of all of it."""

RECORD_CHARS_MAX = 1_000
"""Of the record that a message shows."""

FIELD_CHARS_MAX = 100
"""Of a field, in a record that is too long as a whole."""


def values_of(record: object, paths: Sequence[str]) -> dict[str, Any]:
    """The fields of a key or a group, in this order."""
    return {path: _bounded(field_at(record, path.split("."))) for path in paths}


def text_of(values: Mapping[str, Any]) -> str:
    return msgspec.json.encode(values).decode()


def values_from(text: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(text)
    return found


def record_text(record: Mapping[str, Any]) -> str:
    """The record as JSON. If it is too long: the beginnings of its first fields."""
    text = msgspec.json.encode(record).decode()
    if len(text) <= RECORD_CHARS_MAX:
        return text
    shown: dict[str, str] = {}
    left = RECORD_CHARS_MAX
    for name, value in record.items():
        as_text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        part = as_text if len(as_text) <= FIELD_CHARS_MAX else f"{as_text[:FIELD_CHARS_MAX]}…"
        left -= len(name) + len(part) + len('"":"",')
        if left < 0:
            break
        shown[name] = part
    return msgspec.json.encode(shown).decode()


def _bounded(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else msgspec.json.encode(value, order="sorted").decode()
    if len(text) <= VALUE_CHARS_MAX:
        return text
    return f"{text[:VALUE_CHARS_MAX]}…{hashlib.sha256(text.encode()).hexdigest()[:12]}"
