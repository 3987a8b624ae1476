"""Why a signature was not accepted, and the comparisons that all kinds share."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

from headrace.webhooks.incoming.request import WebhookRequest

SIGNATURES_MAX = 20
"""Of one request. Senders send one for each of their secrets."""

_SECONDS = re.compile(rb"[0-9]{1,12}")


class Why(StrEnum):
    """For metrics; the sender does not learn it."""

    MISSING = "missing"  # there is no signature, or no timestamp
    MALFORMED = "malformed"  # the headers are not what the kind has
    AMBIGUOUS = "ambiguous"  # a header or a field that must be there once is there several times
    MISMATCH = "mismatch"  # no signature fits the body and a secret
    EXPIRED = "expired"  # it was signed too long ago
    FUTURE = "future"  # it was signed too far in the future


class Rejected(Exception):
    """A request that is not from its sender, or not from now."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why = why


def required(request: WebhookRequest, name: str) -> bytes:
    """The value of a header that must be there once."""
    value = request.header(name)
    if not value:
        raise Rejected(Why.MISSING)
    return value


def check_match(expected: Iterable[bytes], given: Sequence[bytes]) -> None:
    """One of the signatures must be one of those that the secrets give. The time does not depend on the bytes."""
    if len(given) > SIGNATURES_MAX:
        raise Rejected(Why.MALFORMED)
    matches = [hmac.compare_digest(one, other) for one in expected for other in given]
    if not any(matches):
        raise Rejected(Why.MISMATCH)


def seconds(text: bytes) -> int:
    """Seconds since 1970. Nothing but ASCII digits: no sign, no fraction, no spaces."""
    if not _SECONDS.fullmatch(text):
        raise Rejected(Why.MALFORMED)
    return int(text)


def check_time(signed_s: int, now_ms: int, tolerance_s: int) -> None:
    """The signature must be at most the tolerance older or newer than now."""
    age_ms = now_ms - 1000 * signed_s
    if age_ms > 1000 * tolerance_s:
        raise Rejected(Why.EXPIRED)
    if age_ms < -1000 * tolerance_s:
        raise Rejected(Why.FUTURE)
