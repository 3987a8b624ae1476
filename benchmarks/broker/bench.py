"""What every subject gets: how much to do, where, and how to say what it is doing."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from benchmarks.broker.brokers import RunningBroker
from benchmarks.broker.load import confluent, create_topic, java_produce
from benchmarks.broker.measurements import Row, Sample, Side
from benchmarks.broker.processes import cpu_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is done for one sample: long enough to be steady, short enough for many rounds."""

    produce: dict[int, int]  # records by their size in bytes
    produce_java_fsync: dict[int, int]  # a flush for every 16 KB takes its time; confluent-kafka sends 1 MB
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
class Bench:
    sizes: Sizes
    workplace: Path
    rows_wanted: str
    say: Callable[[str], None]

    def wants(self, row_key: str) -> bool:
        return fnmatch.fnmatch(row_key, self.rows_wanted)

    @contextlib.contextmanager
    def folder(self) -> Iterator[Path]:
        """A folder on the disk that is measured, gone afterwards, and its writing done: nobody pays for others."""
        folder = Path(tempfile.mkdtemp(dir=self.workplace))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.sync()

    def warm_up(self, broker: RunningBroker) -> None:
        """Let the peer's compiler see the hot path, through both clients, before anything is measured."""
        self.say("warming up")
        create_topic(broker.bootstrap, "warm-up")
        java_produce(broker.bootstrap, "warm-up", self.sizes.warmup, 100)
        confluent("produce", broker.bootstrap, "warm-up", self.sizes.warmup, 100)
        confluent("consume", broker.bootstrap, "warm-up", 2 * self.sizes.warmup)


def measured_load(broker: RunningBroker, records: int, load: Callable[[], float]) -> Sample:
    """Run `load`, which returns what it reached, and take down the CPU time that the broker needed for it."""
    os.sync()  # what was written before is not written during this load
    cpu_before_s = cpu_s(broker.pid)
    value = load()
    used_s = cpu_s(broker.pid) - cpu_before_s
    return Sample(value=value, broker_cpu_s_per_million=used_s / records * 1e6)


class Subject(ABC):
    """One group of rows, measured together: `measure` is called once for each side in each round."""

    name: ClassVar[str]
    title: ClassVar[str]
    sides: ClassVar[tuple[Side, ...]] = (Side.HEADRACE, Side.KAFKA)

    @property
    @abstractmethod
    def rows(self) -> tuple[Row, ...]: ...

    def prepare(self, side: Side, bench: Bench) -> None:  # noqa: B027 - most subjects need none
        """Called once for each side before the first round."""

    @abstractmethod
    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        """Yield row keys with their samples as they come, so that one failure does not lose the others."""
