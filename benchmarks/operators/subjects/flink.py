"""Windows and joins, compared with Flink SQL on the same two cores."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import programs
from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.operators.bench import WARM_UP, Bench, Subject
from benchmarks.operators.events import CLICKS, PROFILES, RESULTS, SEARCHES
from benchmarks.operators.flink import Flink, FlinkUnavailable, flink
from benchmarks.operators.programs.joins import AS_OF, INNER
from benchmarks.streams import sample_of

WORKS = {
    "flink-tumbling": "tumbling, 1 minute, by user",
    "flink-session": "session, a gap of 10 seconds, by user",
    "flink-interval-join": "interval join, within 30 seconds of each other",
    "flink-temporal-join": "temporal join, each event with the version at its event time",
}
OURS = {
    "flink-tumbling": ("windows", "tumbling"),
    "flink-session": ("windows", "session"),
    "flink-interval-join": ("joins", INNER),
    "flink-temporal-join": ("joins", AS_OF),
}
"""The program of Headrace for the same work, and the name of the work there."""

TOPICS = {
    "flink-tumbling": (CLICKS,),
    "flink-session": (CLICKS,),
    "flink-interval-join": (SEARCHES, RESULTS),
    "flink-temporal-join": (CLICKS, PROFILES),
}


class FlinkSql(Subject):
    name = "operators-flink"
    title = "Windows and joins, compared with Flink SQL"
    sides = (Side.HEADRACE, Side.FLINK)

    def __init__(self) -> None:
        self._flink: Flink | None = None
        self._is_missing = False

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (Goal(aim=1.0, against_best=True),)
        return tuple(
            Row(key=work, what=what, unit=Unit.RECORDS_PER_S, goals=goals) for work, what in WORKS.items()
        )

    def prepare(self, side: Side, bench: Bench) -> None:
        """Without Flink none of these rows is measured, and the report states the reason."""
        if side is Side.FLINK:
            bench.show_step("fetching Flink, if it is not installed yet")
            try:
                self._flink = flink()
            except FlinkUnavailable:
                self._is_missing = True
                raise

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if self._is_missing:
            return
        for work in WORKS:
            if bench.wants(work):
                topics = [name + suffix for name in TOPICS[work] for suffix in ("", WARM_UP)]
                with bench.events_broker(*topics) as broker:
                    bench.show_step(WORKS[work])
                    measure = self._theirs if side is Side.FLINK else self._ours
                    yield work, measure(work, bench, broker.bootstrap)

    def _ours(self, work: str, bench: Bench, bootstrap: str) -> Sample:
        program, name = OURS[work]
        events = self._events(work, bench)
        if program == "windows":
            figures = bench.run_program(
                program, side=Side.HEADRACE, works=[name], bootstrap=bootstrap, events=events
            )
        else:
            figures = bench.run_program(
                program, side=Side.HEADRACE, events={name: events}, bootstrap=bootstrap
            )
        return sample_of(figures, name)

    def _theirs(self, work: str, bench: Bench, bootstrap: str) -> Sample:
        assert self._flink is not None
        figures = programs.run_command(
            bench,
            self._flink.command(),
            events={work: self._events(work, bench)},
            bootstrap=bootstrap,
            jars=[str(jar) for jar in self._flink.jars],
        )
        return sample_of(figures, work)

    def _events(self, work: str, bench: Bench) -> int:
        sizes = {CLICKS: bench.sizes.clicks, PROFILES: bench.sizes.versions}
        return sum(sizes.get(topic, bench.sizes.joined) for topic in TOPICS[work])
