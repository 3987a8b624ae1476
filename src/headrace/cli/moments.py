"""Times as people type them."""

from __future__ import annotations

import re
from datetime import datetime

from headrace.durations import BadDuration, parse_duration_ms
from headrace.errors import HeadraceError


class BadMoment(HeadraceError):
    """A time that cannot be parsed."""


def parse_moment_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970, from a time, or from a duration before now such as `1h`."""
    try:
        return now_ms - parse_duration_ms(text)
    except BadDuration:
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
