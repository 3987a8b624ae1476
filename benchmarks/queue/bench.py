"""The sizes of the samples of the queues' benchmark, and the common part of its subjects."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import bench
from benchmarks.broker.brokers import Durability, RunningBroker, running_broker
from benchmarks.broker.load import create_topic
from benchmarks.measurements import Side
from benchmarks.queue.share_client import Load
from benchmarks.queue.share_load import check_all_acknowledged_once, create_group, share_load
from headrace.queue.group_settings import ORDER

MESSAGE_BYTES = 100
KAFKA_PROPERTIES = {
    # How soon a new member gets its assignment. No figure includes joining, but every sample waits for it.
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    messages: int
    warmup: int
    rabbit_s: int  # only the second half counts: Java compiles in the first half
    paced_s: int
    transactions: int
    backlog: int
    locked: int


FULL = Sizes(
    messages=1_000_000,
    warmup=100_000,
    rabbit_s=8,
    paced_s=4,
    transactions=300,
    backlog=5_000_000,
    locked=100_000,
)
QUICK = Sizes(
    messages=30_000,
    warmup=5_000,
    rabbit_s=3,
    paced_s=2,
    transactions=50,
    backlog=200_000,
    locked=20_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(bench.Bench):
    sizes: Sizes

    @contextlib.contextmanager
    def share_broker(self, side: Side, durability: Durability) -> Iterator[RunningBroker]:
        """Headrace or Kafka with its own folder, after a warm-up."""
        with (
            self.folder() as folder,
            running_broker(side, folder, durability, kafka_properties=KAFKA_PROPERTIES) as broker,
        ):
            self.show_step(f"warming up, {durability}")
            self.run_share_load(broker, "warm-up", messages=self.sizes.warmup)
            yield broker

    def run_share_load(
        self,
        broker: RunningBroker,
        name: str,
        *,
        messages: int,
        consumers: int = 1,
        rate: int = 0,
        linger_ms: int = 5,
        keys: int = 0,
        is_ordered: bool = False,
        is_new: bool = True,
    ) -> dict[str, float]:
        """Load a queue: the topic and the group `name` with one partition, which are created if the queue `is_new`."""
        if is_new:
            create_topic(broker.bootstrap, name)
            create_group(broker.bootstrap, name, **({ORDER: "key"} if is_ordered else {}))
        load = Load(
            bootstrap=broker.bootstrap,
            topic=name,
            group=name,
            messages=messages,
            consumers=consumers,
            message_bytes=MESSAGE_BYTES,
            rate=rate,
            linger_ms=linger_ms,
            keys=keys,
        )
        figures = share_load(load)
        if is_new:
            check_all_acknowledged_once(load, figures)
        return figures

    def share_rate(self, broker: RunningBroker, name: str, *, messages: int, consumers: int) -> float:
        return self.run_share_load(broker, name, messages=messages, consumers=consumers)["messages_per_s"]


Subject = bench.Subject[Bench]
