"""Row patterns by key, compared with Flink's MATCH_RECOGNIZE on the same two cores."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import programs
from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.operators.bench import WARM_UP, Bench, Subject
from benchmarks.operators.events import CLICKS
from benchmarks.operators.flink import Flink, FlinkUnavailable, flink
from benchmarks.streams import sample_of

ROW_PATTERN = "row-pattern"


class RowPatterns(Subject):
    name = "patterns-rows"
    title = "Row patterns, compared with Flink's MATCH_RECOGNIZE"
    sides = (Side.HEADRACE, Side.FLINK)

    def __init__(self) -> None:
        self._flink: Flink | None = None
        self._is_missing = False

    @property
    def rows(self) -> tuple[Row, ...]:
        what = "A B+ C by user, within 10 minutes, 10,000 users"
        goals = (Goal(at_least=1.5, against_best=True),)
        return (Row(key=ROW_PATTERN, what=what, unit=Unit.RECORDS_PER_S, goals=goals),)

    def prepare(self, side: Side, bench: Bench) -> None:
        """Without Flink nothing is measured, and the report states the reason."""
        if side is Side.FLINK:
            bench.show_step("fetching Flink, if it is not installed yet")
            try:
                self._flink = flink()
            except FlinkUnavailable:
                self._is_missing = True
                raise

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if self._is_missing or not bench.wants(ROW_PATTERN):
            return
        with bench.events_broker(CLICKS, CLICKS + WARM_UP) as broker:
            bench.show_step("row pattern A B+ C")
            measure = self._theirs if side is Side.FLINK else self._ours
            yield ROW_PATTERN, measure(bench, broker.bootstrap)

    def _ours(self, bench: Bench, bootstrap: str) -> Sample:
        figures = programs.run_program(
            bench, "benchmarks.patterns.programs.row_patterns", bootstrap=bootstrap, events=bench.sizes.clicks
        )
        return sample_of(figures, ROW_PATTERN)

    def _theirs(self, bench: Bench, bootstrap: str) -> Sample:
        assert self._flink is not None
        figures = programs.run_command(
            bench,
            self._flink.command(),
            events={ROW_PATTERN: bench.sizes.clicks},
            bootstrap=bootstrap,
            jars=[str(jar) for jar in self._flink.jars],
        )
        return sample_of(figures, ROW_PATTERN)
