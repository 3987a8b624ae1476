"""Points in time as people write them: ISO 8601, milliseconds since 1970, or a duration before now."""

from __future__ import annotations

import re
from datetime import datetime

from headrace.durations import BadDuration, parse_duration_ms
from headrace.errors import HeadraceError


def parse_time_ms(text: str, now_ms: int) -> int:
    """Milliseconds since 1970: from such a number, from ISO 8601 (without a zone: this machine's), or from a duration
    before now such as `1h`."""
    try:
        return now_ms - parse_duration_ms(text)
    except BadDuration:
        if re.fullmatch(r"-?\d+", text):
            return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise HeadraceError(
            f"{text!r} is not a time",
            hint="write 2026-11-15T10:30:00Z, 2026-11-15 10:30 (local), milliseconds since 1970, or 1h for an hour ago",
        ) from error
