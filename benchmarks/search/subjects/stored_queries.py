"""Documents per second with 100,000 stored queries."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.search.bench import Bench, Subject

ROUNDS = 3
"""The last one is measured, on either side."""
NAIVE_TIMES = 100
CORES = 2


class StoredQueries(Subject):
    name = "search-queries"
    title = "100,000 stored queries, documents of 100 words, on one core"
    sides = (Side.HEADRACE, Side.LUCENE)

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (
            Goal(at_least=1.0, against_best=True),
            Goal(at_least=NAIVE_TIMES, against_row="search-naive"),
        )
        return (
            Row(key="search-matcher", what="all hits", unit=Unit.DOCUMENTS_PER_S, goals=goals),
            Row(key="search-naive", what="a loop over all queries", unit=Unit.DOCUMENTS_PER_S),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        sizes = bench.sizes
        given = {"queries": sizes.queries, "documents": sizes.documents, "rounds": ROUNDS}
        if side is Side.LUCENE:
            if bench.wants("search-matcher"):
                bench.show_step("Lucene's monitor")
                figures = bench.run_program("lucene", **given, threads=1)
                yield "search-matcher", Sample(value=figures["documents_per_s"])
            return
        bench.show_step("the matcher, and a loop over all queries")
        figures = bench.run_program("matcher", **given, documents_naive=sizes.documents_naive)
        yield "search-matcher", Sample(value=figures["documents_per_s"])
        yield "search-naive", Sample(value=figures["naive_per_s"])


class OnSpark(Subject):
    name = "search-spark"
    title = "100,000 stored queries, documents of 100 words, the operator on Spark with two cores"
    sides = (Side.HEADRACE, Side.LUCENE)

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (Goal(at_least=1.0, against_best=True),)
        what = "a stream of documents; Lucene with two threads"
        return (Row(key="search-stream", what=what, unit=Unit.DOCUMENTS_PER_S, goals=goals),)

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        sizes = bench.sizes
        if side is Side.LUCENE:
            bench.show_step("Lucene's monitor, two threads")
            figures = bench.run_program(
                "lucene", queries=sizes.queries, documents=sizes.documents, rounds=ROUNDS, threads=CORES
            )
        else:
            bench.show_step("the operator on Spark")
            figures = bench.run_program("on_spark", queries=sizes.queries, documents=sizes.documents_on_spark)
        yield "search-stream", Sample(value=figures["documents_per_s"])
