"""The memory of a million stored queries."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.search.bench import Bench, Subject

MEGABYTES_MAX = 1_000


class Memory(Subject):
    name = "search-memory"
    title = "One million stored queries"
    sides = (Side.HEADRACE,)

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (Goal(at_most=MEGABYTES_MAX),)
        return (Row(key="search-memory", what="memory of the index", unit=Unit.MEGABYTES, goals=goals),)

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        bench.show_step(f"{bench.sizes.queries_kept:,} queries")
        figures = bench.run_program("memory", queries=bench.sizes.queries_kept)
        yield "search-memory", Sample(value=figures["megabytes"])
