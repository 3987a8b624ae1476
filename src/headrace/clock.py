"""The clock, which is passed in, so that a test can set the time."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970, for timestamps of records. It may jump."""

    def monotonic_s(self) -> float:
        """Monotonic time in seconds, for timeouts."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
