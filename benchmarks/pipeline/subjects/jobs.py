"""A job with Headrace compared with the same job in plain PySpark: the overhead of Headrace."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.pipeline.bench import Bench, Subject
from benchmarks.pipeline.programs.jobs import WORKS


class Jobs(Subject):
    name = "pipeline-jobs"
    title = "5 M events from a topic to a sink that discards them"
    sides = (Side.HEADRACE, Side.SPARK)

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (Goal(at_least=0.95, against_best=True),)
        return tuple(
            Row(key=f"job-{work}", what=what, unit=Unit.RECORDS_PER_S, goals=goals)
            for work, what in WORKS.items()
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with bench.events_broker() as broker:
            works = [work for work in WORKS if bench.wants(f"job-{work}")]
            bench.show_step(", ".join(works))
            figures = bench.run_program(
                "jobs",
                side=side,
                works=works,
                bootstrap=broker.bootstrap,
                events=bench.sizes.events,
            )
        for work in works:
            yield f"job-{work}", Sample(value=figures[work])
