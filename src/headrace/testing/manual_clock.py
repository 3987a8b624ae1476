"""A clock that stands still until a test moves it."""

from __future__ import annotations


class ManualClock:
    """Both kinds of time move together, and only by `advance_ms`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._started_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return (self._now_ms - self._started_ms) / 1000

    def advance_ms(self, by_ms: int) -> None:
        assert by_ms >= 0, "time does not go back here; make another clock for that"
        self._now_ms += by_ms
