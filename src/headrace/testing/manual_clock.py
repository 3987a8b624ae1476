"""A clock that only a test moves."""

from __future__ import annotations


class ManualClock:
    """Both kinds of time advance together, and only with `advance_ms`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._started_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return (self._now_ms - self._started_ms) / 1000

    def advance_ms(self, by_ms: int) -> None:
        assert by_ms >= 0, "a manual clock can't go back; create another clock"
        self._now_ms += by_ms
