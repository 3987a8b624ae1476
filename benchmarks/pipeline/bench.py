"""The sizes of the samples of the pipeline's benchmark, and the topic of events that its subjects read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import bench, programs
from benchmarks.broker.brokers import Durability, RunningBroker, running_broker
from benchmarks.event_topics import write_topic
from benchmarks.measurements import Side
from benchmarks.pipeline.events import EVENTS_TOPIC, WARMUP_TOPIC, events


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    events: int
    warmup: int
    upserts: int
    upsert_keys: int
    latency_events: int
    latency_rate: int


FULL = Sizes(
    events=5_000_000,
    warmup=500_000,
    upserts=2_000_000,
    upsert_keys=200_000,
    latency_events=10_000,
    latency_rate=500,
)
QUICK = Sizes(
    events=50_000,
    warmup=10_000,
    upserts=20_000,
    upsert_keys=5_000,
    latency_events=500,
    latency_rate=100,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(bench.Bench):
    sizes: Sizes

    @contextlib.contextmanager
    def events_broker(self) -> Iterator[RunningBroker]:
        """Headrace's broker with the topic of events, and a short one, written once for the whole run."""
        folder = self.workplace / "events"
        is_new = not folder.exists()
        with running_broker(Side.HEADRACE, folder, Durability.OS) as broker:
            if is_new:
                self.show_step(f"writing {self.sizes.events:,} events")
                for topic, count in ((WARMUP_TOPIC, self.sizes.warmup), (EVENTS_TOPIC, self.sizes.events)):
                    write_topic(broker.bootstrap, topic, events(count), count)
            yield broker

    def run_program(self, name: str, **arguments: Any) -> dict[str, float]:
        return programs.run_program(self, f"benchmarks.pipeline.programs.{name}", **arguments)


Subject = bench.Subject[Bench]
