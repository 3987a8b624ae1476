"""The join of two streams, compared with Spark's own join if Spark supports it."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.operators.bench import WARM_UP, Bench, Subject
from benchmarks.operators.events import RESULTS, SEARCHES
from benchmarks.operators.programs.joins import INNER, LEFT
from benchmarks.streams import sample_of

WORKS = {
    INNER: "within 30 seconds of each other, matches",
    LEFT: "the same, with the rows of the left side that have no match",
}


class Join(Subject):
    name = "operators-join"
    title = "1 M events joined with 1 M others"
    sides = (Side.HEADRACE, Side.SPARK)

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (Goal(at_least=0.8, against_best=True),)
        return tuple(
            Row(key=work, what=what, unit=Unit.RECORDS_PER_S, goals=goals) for work, what in WORKS.items()
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        events = {work: 2 * bench.sizes.joined for work in WORKS if bench.wants(work)}
        with bench.events_broker(SEARCHES, RESULTS, SEARCHES + WARM_UP, RESULTS + WARM_UP) as broker:
            bench.show_step(", ".join(events))
            figures = bench.run_program("joins", side=side, events=events, bootstrap=broker.bootstrap)
        for work in events:
            yield work, sample_of(figures, work)
