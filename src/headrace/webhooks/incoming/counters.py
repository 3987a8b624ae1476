"""What became of requests: counted by source, and served as metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

NO_SOURCE = ""
"""Of requests to names that do not exist: a caller must not be able to make metrics."""


class Outcome(StrEnum):
    """What became of a verified request. Those that are not verified have the reasons of `signatures`."""

    ACCEPTED = "accepted"
    BUFFERED = "buffered"
    DUPLICATE = "duplicate"
    PING = "ping"
    DEAD_LETTER = "dead letter"
    TOO_LARGE = "too large"
    OVER_RATE = "over rate"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"


class Counters:
    """Changed by one event loop."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str]] = Counter()
        self._rejected: Counter[tuple[str, str]] = Counter()

    def add(self, source: str, outcome: Outcome) -> None:
        self._requests[source, outcome] += 1

    def add_rejected(self, source: str, reason: str) -> None:
        self._rejected[source, reason] += 1

    def count(self, source: str) -> dict[str, int]:
        """By outcome or reason."""
        both = [*self._requests.items(), *self._rejected.items()]
        return {what: number for (name, what), number in both if name == source}

    def rows(self) -> tuple[list[tuple[str, str, int]], list[tuple[str, str, int]]]:
        return _rows(self._requests), _rows(self._rejected)


def _rows(counter: Counter[tuple[str, str]]) -> list[tuple[str, str, int]]:
    return [(source, what, number) for (source, what), number in sorted(counter.items())]


class WebhookCollector(Collector):
    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        requests, rejected = self._counters.rows()
        yield _family("requests", "Verified requests of webhooks, by outcome.", "outcome", requests)
        yield _family("rejected", "Requests that were not verified, by reason.", "reason", rejected)


def _family(name: str, doc: str, label: str, rows: list[tuple[str, str, int]]) -> Metric:
    family = CounterMetricFamily(f"headrace_webhook_in_{name}", doc, labels=["source", label])
    for source, what, number in rows:
        family.add_metric([source, what], number)
    return family
