"""The configs of a share group that decide how its records are delivered."""

from __future__ import annotations

from msgspec import Struct


class Rules(Struct, frozen=True, kw_only=True):
    lock_ms: int = 30_000
    delivery_count_max: int = 5
    locks_max: int = 2_000
    has_dead_letters: bool = False
    backoff_ms: int = 0
    backoff_ms_max: int = 60_000
    backoff_multiplier: float = 2.0
    is_ordered: bool = False
    """Whether records of a key are delivered in order, to one member at a time."""

    def delay_ms(self, delivery_count: int) -> int:
        """The back-off before the next delivery of a record."""
        if self.backoff_ms == 0:
            return 0
        delay_ms = self.backoff_ms * self.backoff_multiplier ** min(delivery_count - 1, 64)
        return int(min(delay_ms, self.backoff_ms_max))
