"""Rate limits of queries: how many hits of a query are emitted in a window of event time."""

from __future__ import annotations

from msgspec import Struct


class HitCount(Struct):
    """The hits of one query: in its current window, and those that were suppressed since one was emitted."""

    window_us: int
    count: int = 0
    suppressed: int = 0

    def passed(self, time_us: int, hits_max: int | None, per_us: int) -> int | None:
        """Count a hit. Returns how many were suppressed since the one before; None if this one is suppressed too.

        Windows have the length `per_us`, start at the epoch, and only advance: a hit of an earlier window counts in the
        current one.
        """
        window_us = time_us - time_us % per_us
        if window_us > self.window_us:
            self.window_us, self.count = window_us, 0
        self.count += 1
        if hits_max is not None and self.count > hits_max:
            self.suppressed += 1
            return None
        suppressed, self.suppressed = self.suppressed, 0
        return suppressed
