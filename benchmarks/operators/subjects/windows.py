"""Windows that Spark runs natively, and windows with early panes and retractions, compared with Spark's plain ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.operators.bench import WARM_UP, Bench, Subject
from benchmarks.operators.events import CLICKS
from benchmarks.operators.programs.windows import WORKS
from benchmarks.streams import sample_of


class _Windows(Subject):
    sides = (Side.HEADRACE, Side.SPARK)
    works: ClassVar[tuple[str, ...]]
    goal: ClassVar[float]

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (Goal(at_least=self.goal, against_best=True),)
        return tuple(
            Row(key=work, what=WORKS[work].what, unit=Unit.RECORDS_PER_S, goals=goals) for work in self.works
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        works = [work for work in self.works if bench.wants(work)]
        with bench.events_broker(CLICKS, CLICKS + WARM_UP) as broker:
            bench.show_step(", ".join(works))
            figures = bench.run_program(
                "windows", side=side, works=works, bootstrap=broker.bootstrap, events=bench.sizes.clicks
            )
        for work in works:
            yield work, sample_of(figures, work)


class NativeWindows(_Windows):
    name = "operators-native"
    title = "3 M events in windows without corrections, to a sink that discards"
    works = ("tumbling", "hopping", "session")
    goal = 0.95


class Panes(_Windows):
    name = "operators-panes"
    title = (
        "3 M events of 200,000 keys in windows of an hour: early panes and retractions; Spark's plain window"
    )
    works = ("panes-each-batch", "panes-10-seconds")
    goal = 0.5
