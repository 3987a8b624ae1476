"""The sizes of the samples of the operators' benchmark, and the topics that its subjects read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import bench, programs
from benchmarks.broker.brokers import Durability, RunningBroker, running_broker
from benchmarks.event_topics import Message, write_topic
from benchmarks.measurements import Side
from benchmarks.operators import events

SHORT = "-short"
"""Suffix of the topics for implementations with one state call per key."""

WARM_UP = "-warm-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    clicks: int
    clicks_short: int
    """Rows for one state call per key: at 6,000 a second, three million rows would take eight minutes."""
    joined: int
    """Rows on each side of a join."""
    versions: int
    warmup: int
    touched_keys: int
    kept_keys: tuple[int, ...]
    touching_batches: int

    def count_of(self, topic: str) -> int:
        """The number of rows in a topic of clicks."""
        if topic.endswith(WARM_UP):
            return self.warmup
        return self.clicks_short if topic.endswith(SHORT) else self.clicks


FULL = Sizes(
    clicks=3_000_000,
    clicks_short=500_000,
    joined=1_000_000,
    versions=200_000,
    warmup=200_000,
    touched_keys=100_000,
    kept_keys=(100_000, 1_000_000, 10_000_000),
    touching_batches=100,
)
QUICK = Sizes(
    clicks=100_000,
    clicks_short=40_000,
    joined=40_000,
    versions=20_000,
    warmup=20_000,
    touched_keys=1_000,
    kept_keys=(1_000, 10_000, 100_000),
    touching_batches=6,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(bench.Bench):
    sizes: Sizes

    @contextlib.contextmanager
    def events_broker(self, *topics: str) -> Iterator[RunningBroker]:
        """Headrace's broker with these topics, each written once for the whole run."""
        folder = self.workplace / "events"
        with running_broker(Side.HEADRACE, folder, Durability.OS) as broker:
            for topic in topics:
                written = folder / f"{topic}.written"
                if not written.exists():
                    messages, count = self._messages(topic)
                    self.show_step(f"writing {count:,} events to {topic}")
                    write_topic(broker.bootstrap, topic, messages, count)
                    written.touch()
            yield broker

    def _messages(self, topic: str) -> tuple[Iterator[Message], int]:
        sizes = self.sizes
        kind, is_warm_up = topic.removesuffix(WARM_UP).removesuffix(SHORT), topic.endswith(WARM_UP)
        if kind == events.CLICKS:
            count = sizes.count_of(topic)
            return events.clicks(count), count
        if kind == events.PROFILES:
            span = sizes.warmup if is_warm_up else sizes.clicks
            return events.profiles(sizes.versions, span=span), sizes.versions
        count = sizes.warmup if is_warm_up else sizes.joined
        make = {events.SEARCHES: events.searches, events.RESULTS: events.results}[kind]
        return make(count), count

    def run_program(self, name: str, **arguments: Any) -> dict[str, float]:
        return programs.run_program(self, f"benchmarks.operators.programs.{name}", **arguments)


Subject = bench.Subject[Bench]
