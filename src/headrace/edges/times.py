"""The time of a window or an interval, and how events write it."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct


class WindowTime(Struct, frozen=True, kw_only=True):
    start_ms: int
    end_ms: int


def time_text(time_ms: int) -> str:
    """2026-11-15T10:35:12.123Z"""
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
