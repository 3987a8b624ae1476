"""The sizes of the samples of the benchmark of searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks import bench, programs


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    queries: int
    documents: int
    documents_naive: int
    """A loop over 100,000 queries takes about a third of a second for each document."""
    documents_on_spark: int
    queries_kept: int
    """Queries of which the memory is measured."""


FULL = Sizes(
    queries=100_000,
    documents=10_000,
    documents_naive=30,
    documents_on_spark=40_000,
    queries_kept=1_000_000,
)
QUICK = Sizes(queries=2_000, documents=300, documents_naive=5, documents_on_spark=300, queries_kept=20_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(bench.Bench):
    sizes: Sizes

    def run_program(self, name: str, **arguments: Any) -> dict[str, float]:
        return programs.run_program(self, f"benchmarks.search.programs.{name}", **arguments)


Subject = bench.Subject[Bench]
