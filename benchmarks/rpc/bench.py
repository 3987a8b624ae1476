"""The sizes of the samples of the benchmark of questions, and its broker."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import bench, programs
from benchmarks.broker.brokers import Durability, RunningBroker, running_broker
from benchmarks.measurements import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    urls: int
    """Keys of the state."""
    clicks_per_s: int
    """While questions are asked."""
    warmup: int
    questions: int
    spark_questions: int
    """Each takes about a second."""


FULL = Sizes(urls=100_000, clicks_per_s=1_000, warmup=500, questions=5_000, spark_questions=30)
QUICK = Sizes(urls=1_000, clicks_per_s=100, warmup=20, questions=100, spark_questions=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(bench.Bench):
    sizes: Sizes

    @contextlib.contextmanager
    def broker(self) -> Iterator[RunningBroker]:
        with self.folder() as folder, running_broker(Side.HEADRACE, folder, Durability.OS) as broker:
            yield broker

    def run_program(self, name: str, **arguments: Any) -> dict[str, float]:
        return programs.run_program(self, f"benchmarks.rpc.programs.{name}", **arguments)


Subject = bench.Subject[Bench]
