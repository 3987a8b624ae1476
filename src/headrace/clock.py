"""Time, passed in rather than read on the way, so that a test can set it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since the epoch: what records carry. It may jump."""

    def monotonic_s(self) -> float:
        """Seconds that never go back: what time-outs are measured with."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
