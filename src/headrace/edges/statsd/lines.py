"""One line of StatsD as a metric: `name:value|type|@rate|#tag:value,tag`, with DogStatsD's tags and packed values."""

from __future__ import annotations

import re
from enum import StrEnum
from math import isfinite

from msgspec import Struct


class Garbage(StrEnum):
    """Why a line is not a metric, or was not counted."""

    NO_VALUE = "no value"
    NO_TYPE = "no type"
    UNKNOWN_TYPE = "unknown type"
    BAD_VALUE = "value is not a number"
    BAD_RATE = "sampling rate is not in (0, 1]"
    BAD_NAME = "name is empty or not UTF-8"
    BAD_TAGS = "tags are not UTF-8"
    UNKNOWN_FIELD = "unknown field"
    UNSUPPORTED = "events and service checks are not supported"
    TOO_LONG = "line is too long"
    TOO_MANY = "too many different metrics"


class BadLine(Exception):
    def __init__(self, reason: Garbage) -> None:
        super().__init__(reason)
        self.reason = reason


class Metric(Struct, frozen=True):
    name: bytes
    type: bytes
    """c, g, ms, h, d or s"""
    values: tuple[float, ...]
    members: tuple[bytes, ...] = ()
    """of a set, instead of values"""
    rate: float = 1.0
    tags: bytes = b""
    is_delta: bool = False
    """of a gauge: its value has a sign, so it is added"""


_NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_TYPES = frozenset({b"c", b"g", b"ms", b"h", b"d", b"s"})
_SIGNS = (b"+", b"-")


def parse_line(line: bytes) -> Metric:
    """The metric of a line without its end; BadLine if it is none."""
    if line.startswith((b"_e{", b"_sc|")):
        raise BadLine(Garbage.UNSUPPORTED)
    name, colon, rest = line.partition(b":")
    if not colon or not rest or rest.startswith(b"|"):
        raise BadLine(Garbage.NO_VALUE)
    value, *fields = rest.split(b"|")
    if not fields or not fields[0]:
        raise BadLine(Garbage.NO_TYPE)
    kind, *options = fields
    if kind not in _TYPES:
        raise BadLine(Garbage.UNKNOWN_TYPE)
    _require_text(name, Garbage.BAD_NAME)
    if not name:
        raise BadLine(Garbage.BAD_NAME)
    rate, tags = 1.0, b""
    for option in options:
        mark = option[:1]
        if mark == b"@":
            rate = _rate(option[1:])
        elif mark == b"#":
            tags = option[1:]
            _require_text(tags, Garbage.BAD_TAGS)
        # The time and the container of DogStatsD 1.2 and 1.3 say nothing that a window needs.
        elif mark not in (b"T", b"c", b"e", b""):
            raise BadLine(Garbage.UNKNOWN_FIELD)
    if kind == b"s":
        return Metric(name, kind, (), (value,), rate, tags)
    texts = value.split(b":")
    is_delta = kind == b"g" and texts[0].startswith(_SIGNS)
    return Metric(name, kind, tuple(_number(text) for text in texts), (), rate, tags, is_delta)


def _number(text: bytes) -> float:
    if not _NUMBER.fullmatch(text):
        raise BadLine(Garbage.BAD_VALUE)
    value = float(text)
    if not isfinite(value):
        raise BadLine(Garbage.BAD_VALUE)
    return value


def _rate(text: bytes) -> float:
    try:
        rate = _number(text)
    except BadLine:
        raise BadLine(Garbage.BAD_RATE) from None
    if not 0 < rate <= 1:
        raise BadLine(Garbage.BAD_RATE)
    return rate


def _require_text(data: bytes, reason: Garbage) -> None:
    try:
        data.decode()
    except UnicodeDecodeError:
        raise BadLine(reason) from None


def tags_of(text: bytes) -> dict[str, str]:
    """The tags by name, sorted. One without a value has an empty one; the values of a repeated name have commas."""
    found: dict[str, set[str]] = {}
    for tag in text.decode().split(","):
        if tag:
            name, _, value = tag.partition(":")
            found.setdefault(name, set()).add(value)
    return {name: ",".join(sorted(found[name])) for name in sorted(found)}
