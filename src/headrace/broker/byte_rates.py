"""Byte-rate quotas of clients: how long a client that exceeds its rate has to pause.

The bytes that a client sends or receives fill a bucket that drains at its rate. A bucket may hold what the rate allows
in a window of time, so that short bursts pass, as with Kafka's average over its window. A client that exceeds it pauses
until the bucket has drained to that level.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from msgspec import Struct

from headrace.broker.configs.client_quotas import ClientQuotas, Entity

BUCKETS_MAX = 10_000
"""Clients whose buckets are kept; the one that was idle for longest is dropped first. Some 300 bytes each."""


class _Bucket(Struct, frozen=True):
    held_bytes: float
    at_s: float


class ByteRates:
    def __init__(self, quotas: ClientQuotas, *, window_s: float) -> None:
        self._quotas = quotas
        self._window_s = window_s
        self._buckets: OrderedDict[tuple[str, Entity], _Bucket] = OrderedDict()

    def burst_bytes(self, key: str, client_id: str) -> float:
        """What a client may send or receive in a burst. A fetch response has no more, so that pauses are short."""
        limited = self._quotas.limit(key, client_id) if self._quotas else None
        return math.inf if limited is None else limited[0] * self._window_s

    def pause_s(self, key: str, client_id: str, count_bytes: int, now_s: float) -> float:
        """Count what a client sent or received; for how long it has to pause, mostly 0."""
        if not self._quotas:
            return 0
        limited = self._quotas.limit(key, client_id)
        if limited is None:
            return 0
        rate, shared_by = limited
        bucket = self._buckets.pop((key, shared_by), None) or _Bucket(0, now_s)
        held_bytes = max(0.0, bucket.held_bytes - rate * (now_s - bucket.at_s)) + count_bytes
        self._buckets[key, shared_by] = _Bucket(held_bytes, now_s)
        if len(self._buckets) > BUCKETS_MAX:
            self._buckets.popitem(last=False)
        return max(0.0, held_bytes / rate - self._window_s)
