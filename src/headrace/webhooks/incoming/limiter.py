"""A rate for each source. Only verified requests count, so who has no secret can't use up the rate of the sender."""

from __future__ import annotations


class Limiter:
    """As many requests per second as the rate, and a burst at once. Times are monotonic seconds."""

    def __init__(self, *, per_s: float, burst: float, now_s: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = burst
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        """Whether one more request is within the rate."""
        self._left = min(self._burst, self._left + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
