"""The sizes of the samples of the benchmark of edges, and its broker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import bench
from benchmarks.broker.brokers import Durability, RunningBroker, running_broker
from benchmarks.measurements import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    flood_s: float
    """How long packets are sent at each rate."""
    rates: tuple[int, int]
    """packets/s: the least and the most that are tried"""
    steps: int
    """of the search between them; each halves what is left"""
    cpu_rate: int
    """packets/s at which CPU time is measured"""


FULL = Sizes(flood_s=3.0, rates=(5_000, 600_000), steps=8, cpu_rate=50_000)
QUICK = Sizes(flood_s=0.2, rates=(1_000, 50_000), steps=1, cpu_rate=5_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(bench.Bench):
    sizes: Sizes

    @contextlib.contextmanager
    def broker(self) -> Iterator[RunningBroker]:
        with self.folder() as folder, running_broker(Side.HEADRACE, folder, Durability.OS) as broker:
            yield broker


Subject = bench.Subject[Bench]
