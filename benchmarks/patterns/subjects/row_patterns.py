"""Row patterns by key, compared with Flink's MATCH_RECOGNIZE on the same two cores."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import programs
from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.operators.bench import WARM_UP, Bench
from benchmarks.operators.events import CLICKS
from benchmarks.operators.subjects.flink import BesideFlink
from benchmarks.streams import sample_of

ROW_PATTERN = "row-pattern"


class RowPatterns(BesideFlink):
    name = "patterns-rows"
    title = "Row patterns, compared with Flink's MATCH_RECOGNIZE"

    @property
    def rows(self) -> tuple[Row, ...]:
        what = "A B+ C by user, within 10 minutes, 10,000 users"
        goals = (Goal(at_least=1.5, against_best=True),)
        return (Row(key=ROW_PATTERN, what=what, unit=Unit.RECORDS_PER_S, goals=goals),)

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if self.is_missing or not bench.wants(ROW_PATTERN):
            return
        with bench.events_broker(CLICKS, CLICKS + WARM_UP) as broker:
            bench.show_step("row pattern A B+ C")
            measure = self.by_flink if side is Side.FLINK else _ours
            yield ROW_PATTERN, measure(ROW_PATTERN, bench.sizes.clicks, bench, broker.bootstrap)


def _ours(work: str, events: int, bench: Bench, bootstrap: str) -> Sample:
    figures = programs.run_program(
        bench, "benchmarks.patterns.programs.row_patterns", bootstrap=bootstrap, events=events
    )
    return sample_of(figures, work)
