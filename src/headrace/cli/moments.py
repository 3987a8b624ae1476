"""Times and durations as people type them."""

from __future__ import annotations

import re
from datetime import datetime

from headrace.errors import HeadraceError

_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SHORT_DURATION = re.compile(r"(\d+)(ms|s|m|h|d|w)")
_ISO_DURATION = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.IGNORECASE)


class BadMoment(HeadraceError):
    """A time or a duration that cannot be read."""


def parse_moment_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970, from a time, or from a duration before now such as `1h`."""
    try:
        return now_ms - parse_duration_ms(text)
    except BadMoment:
        return parse_time_ms(text)


def parse_time_ms(text: str) -> int:
    """Milliseconds since 1970, from such a number or from ISO 8601 (without a zone: this machine's)."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise BadMoment(
            f"{text!r} is not a time",
            hint="write 2026-11-15T10:30:00Z, 2026-11-15 10:30 (local), milliseconds since 1970, or 1h for an hour ago",
        ) from error


def parse_duration_ms(text: str) -> int:
    """Milliseconds, from `90s`, `1h30m`, `2d` or ISO 8601's `PT1H30M`."""
    if _SHORT_DURATION.sub("", text) == "" and text:
        return sum(int(count) * _UNIT_MS[unit] for count, unit in _SHORT_DURATION.findall(text))
    found = _ISO_DURATION.fullmatch(text)
    if found and any(found.groups()):
        units = ("w", "d", "h", "m", "s")
        return sum(
            int(count or 0) * _UNIT_MS[unit] for count, unit in zip(found.groups(), units, strict=True)
        )
    raise BadMoment(f"{text!r} is not a duration", hint="write 90s, 15m, 1h30m, 2d or PT1H30M")
