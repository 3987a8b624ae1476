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


class BesideFlink(Subject):
    """The same work by Flink, in a process of its own. Without Flink nothing is measured, and the report states why."""

    sides = (Side.HEADRACE, Side.FLINK)

    def __init__(self) -> None:
        self._flink: Flink | None = None
        self.is_missing = False

    def prepare(self, side: Side, bench: Bench) -> None:
        if side is Side.FLINK:
            bench.show_step("fetching Flink, if it is not installed yet")
            try:
                self._flink = flink()
            except FlinkUnavailable:
                self.is_missing = True
                raise

    def by_flink(self, work: str, events: int, bench: Bench, bootstrap: str) -> Sample:
        assert self._flink is not None
        figures = programs.run_command(
            bench,
            self._flink.command(),
            events={work: events},
            bootstrap=bootstrap,
            jars=[str(jar) for jar in self._flink.jars],
        )
        return sample_of(figures, work)


class FlinkSql(BesideFlink):
    name = "operators-flink"
    title = "Windows and joins, compared with Flink SQL"

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (Goal(aim=1.0, against_best=True),)
        return tuple(
            Row(key=work, what=what, unit=Unit.RECORDS_PER_S, goals=goals) for work, what in WORKS.items()
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if self.is_missing:
            return
        for work in WORKS:
            if bench.wants(work):
                topics = [name + suffix for name in TOPICS[work] for suffix in ("", WARM_UP)]
                with bench.events_broker(*topics) as broker:
                    bench.show_step(WORKS[work])
                    measure = self.by_flink if side is Side.FLINK else self._ours
                    yield work, measure(work, self._events(work, bench), bench, broker.bootstrap)

    def _ours(self, work: str, events: int, bench: Bench, bootstrap: str) -> Sample:
        program, name = OURS[work]
        if program == "windows":
            figures = bench.run_program(
                program, side=Side.HEADRACE, works=[name], bootstrap=bootstrap, events=events
            )
        else:
            figures = bench.run_program(
                program, side=Side.HEADRACE, events={name: events}, bootstrap=bootstrap
            )
        return sample_of(figures, name)

    def _events(self, work: str, bench: Bench) -> int:
        sizes = {CLICKS: bench.sizes.clicks, PROFILES: bench.sizes.versions}
        return sum(sizes.get(topic, bench.sizes.joined) for topic in TOPICS[work])
