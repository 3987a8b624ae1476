"""The sizes of the samples of the benchmark of sketches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks import bench, programs


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    rows: int
    values: tuple[int, ...]
    """Numbers of distinct values, fewest first."""


FULL = Sizes(rows=4_000_000, values=(10_000, 100_000, 1_000_000))
QUICK = Sizes(rows=100_000, values=(1_000, 10_000, 50_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(bench.Bench):
    sizes: Sizes

    def run_program(self, name: str, **arguments: Any) -> dict[str, float]:
        return programs.run_program(self, f"benchmarks.approximation.programs.{name}", **arguments)


Subject = bench.Subject[Bench]
