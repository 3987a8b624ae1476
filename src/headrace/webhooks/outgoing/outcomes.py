"""What an answer means for its message and for its target.

    2xx                        delivered
    410                        the receiver wants no more: the target is paused
    4xx but 408, 409, 425, 429 the receiver rejects the message: few more attempts, in case it is being repaired
    everything else            a failure of the target: attempts for a day and a half

A redirect is a failure, too: it could lead anywhere, and whoever changes the address of a target is its owner.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

_TEMPORARY = frozenset({408, 409, 425, 429})
GONE_STATUS = 410


class Verdict(StrEnum):
    DELIVERED = "delivered"
    FAILED = "failed"
    REJECTED = "rejected"
    GONE = "gone"


class Answer(Struct, frozen=True, kw_only=True):
    """What one attempt came to."""

    status: int | None
    """None: there was no answer."""
    latency_ms: float
    error: str = ""
    """Why it was not delivered. It never has what the receiver wrote."""
    retry_after_ms: int | None = None

    @property
    def verdict(self) -> Verdict:
        if self.status is None:
            return Verdict.FAILED
        if 200 <= self.status < 300:
            return Verdict.DELIVERED
        if self.status == GONE_STATUS:
            return Verdict.GONE
        if 400 <= self.status < 500 and self.status not in _TEMPORARY:
            return Verdict.REJECTED
        return Verdict.FAILED


def error_of(status: int) -> str:
    """Empty if the status means that the message is delivered."""
    if 200 <= status < 300:
        return ""
    if 300 <= status < 400:
        return f"HTTP {status}: redirects are not followed"
    return f"HTTP {status}"
