"""The sizes of the samples of the broker's benchmark, and the warm-up of its brokers."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import bench
from benchmarks.broker.brokers import RunningBroker
from benchmarks.broker.load import confluent, create_topic, java_produce


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of one sample: large enough for steady figures, small enough for many rounds."""

    produce: dict[int, int]  # records by their size in bytes
    produce_java_fsync: dict[int, int]  # a flush for every 16 KB is slow; confluent-kafka sends 1 MB
    consume: dict[int, int]
    warmup: int
    pings: int
    raw_frames_os: int
    raw_frames_fsync: int
    partitions: int
    connections: int
    idle_s: float
    restart_mb: tuple[int, ...]


FULL = Sizes(
    produce={100: 4_000_000, 1000: 1_000_000},
    produce_java_fsync={100: 1_500_000, 1000: 250_000},
    consume={100: 5_000_000, 1000: 1_500_000},
    warmup=500_000,
    pings=5_000,
    raw_frames_os=100_000,
    raw_frames_fsync=5_000,
    partitions=1_000,
    connections=500,
    idle_s=20,
    restart_mb=(1_000, 10_000),
)
QUICK = Sizes(
    produce={100: 100_000, 1000: 30_000},
    produce_java_fsync={100: 50_000, 1000: 10_000},
    consume={100: 100_000, 1000: 30_000},
    warmup=10_000,
    pings=300,
    raw_frames_os=2_000,
    raw_frames_fsync=200,
    partitions=50,
    connections=50,
    idle_s=2,
    restart_mb=(20, 100),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(bench.Bench):
    sizes: Sizes

    def warm_up(self, broker: RunningBroker) -> None:
        """Run the hot path with both clients, so that Java has compiled it before the first sample."""
        self.show_step("warming up")
        create_topic(broker.bootstrap, "warm-up")
        java_produce(broker.bootstrap, "warm-up", self.sizes.warmup, 100)
        confluent("produce", broker.bootstrap, "warm-up", self.sizes.warmup, 100)
        confluent("consume", broker.bootstrap, "warm-up", 2 * self.sizes.warmup)


Subject = bench.Subject[Bench]
