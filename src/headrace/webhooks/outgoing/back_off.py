"""When a failed delivery is tried again: exponential back-off with jitter, and what the receiver asks for."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from msgspec import Struct

JITTER = 0.2
"""A delay is up to a fifth shorter or longer, so that requests that failed together do not come back together."""

EXPONENT_MAX = 64


class BackOff(Struct, frozen=True, kw_only=True):
    first_ms: int
    factor: int
    delay_ms_max: int
    retry_after_ms_max: int
    """A receiver that asks for a longer pause gets this one."""

    def delay_ms(self, attempts: int, retry_after_ms: int | None, random: float) -> int:
        """After this many attempts; `random` is from 0 to 1. Never earlier than the receiver asks for."""
        plain_ms = min(self.first_ms * self.factor ** min(attempts - 1, EXPONENT_MAX), self.delay_ms_max)
        delay_ms = int(plain_ms * (1 + JITTER * (2 * random - 1)))
        return max(delay_ms, min(retry_after_ms or 0, self.retry_after_ms_max))


def retry_after_ms(text: str | None, now_ms: int) -> int | None:
    """The header Retry-After, in seconds or as a date; None if it is missing or neither."""
    if text is None or len(text) > 64:
        return None
    if text.strip().isdecimal() and text.isascii():
        return int(text) * 1000
    try:
        return max(0, int(parsedate_to_datetime(text).timestamp() * 1000) - now_ms)
    except (ValueError, TypeError, OverflowError):
        return None
