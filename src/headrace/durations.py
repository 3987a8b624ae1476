"""Durations as people write them: `90s`, `1h30m`, `10 seconds`, `1 hour 30 minutes`, `PT1H30M`."""

from __future__ import annotations

import re

from headrace.errors import HeadraceError

_SHORT_UNITS_US = {
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 7 * 86_400_000_000,
}
_LONG_UNITS_US = {
    "microsecond": 1,
    "millisecond": _SHORT_UNITS_US["ms"],
    "second": _SHORT_UNITS_US["s"],
    "minute": _SHORT_UNITS_US["m"],
    "hour": _SHORT_UNITS_US["h"],
    "day": _SHORT_UNITS_US["d"],
    "week": _SHORT_UNITS_US["w"],
}
_PART = re.compile(r"([+-]?\d+)\s*([a-z]+)", re.IGNORECASE)
_ISO = re.compile(
    r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6})\d*)?S)?)?", re.IGNORECASE
)
_HINT = "write 90s, 1h30m, 10 seconds or PT1H30M"


class BadDuration(HeadraceError):
    """A text that is not a duration."""


def parse_duration_us(text: str) -> int:
    """The duration in microseconds. It may be negative."""
    amount_us = iso_duration_us(text)
    if amount_us is not None:
        return amount_us
    parts = _PART.findall(text)
    if not parts or _PART.sub("", text).strip(" ,"):
        raise BadDuration(f"{text!r} is not a duration", hint=_HINT)
    return sum(int(count) * _unit_us(unit, text) for count, unit in parts)


def parse_duration_ms(text: str) -> int:
    """The duration in milliseconds. A negative duration is an error."""
    amount_us = parse_duration_us(text)
    if amount_us < 0:
        raise BadDuration(f"{text!r} is not a duration", hint=_HINT)
    return amount_us // 1_000


def iso_duration_us(text: str) -> int | None:
    """An ISO 8601 duration such as `P1DT2H` or `PT0.5S` in microseconds; None if the text is not one."""
    found = _ISO.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    *counts, fraction = found.groups()
    whole_us = sum(
        int(count or 0) * _SHORT_UNITS_US[unit] for count, unit in zip(counts, "wdhms", strict=True)
    )
    return whole_us + int((fraction or "").ljust(6, "0"))


def _unit_us(unit: str, text: str) -> int:
    if unit in _SHORT_UNITS_US:
        return _SHORT_UNITS_US[unit]
    name = unit.lower().removesuffix("s")
    if name in ("month", "year"):
        raise BadDuration(f"{text!r} is not a duration: {name}s differ in length", hint="write days or weeks")
    if name not in _LONG_UNITS_US:
        raise BadDuration(f"{text!r} is not a duration: the unit {unit!r} is unknown", hint=_HINT)
    return _LONG_UNITS_US[name]
