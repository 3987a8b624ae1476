"""From the commit in the database to the row in a SQLite view, in parts."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cdc.bench import Bench, Subject
from benchmarks.cdc.followers import following
from benchmarks.cdc.subjects.latency import FIGURES, TABLE
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

PLACES = {"topic": "COMMIT to a reader of the topic", "view": "COMMIT to the row in the view"}
GOALS = {("view", "p50"): 300.0, ("view", "p99"): 1_000.0}
"""Milliseconds."""


class ViewLatency(Subject):
    name = "view-latency"
    title = "From COMMIT in PostgreSQL to a row in a SQLite view, micro-batches"
    sides = (Side.HEADRACE,)

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            Row(
                key=f"view-latency-{place}-{figure}",
                what=f"{words}, {what}",
                unit=Unit.MILLISECONDS,
                goals=(Goal(at_most=GOALS[place, figure]),) if (place, figure) in GOALS else (),
            )
            for place, words in PLACES.items()
            for figure, what in FIGURES.items()
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with bench.workbench() as (database, broker, folder):
            database.execute("CREATE TABLE ticks (id bigserial PRIMARY KEY, at bigint)")
            with following(side, database, broker, folder, TABLE):
                bench.show_step(f"{bench.sizes.latency_rows:,} commits")
                figures = bench.run_program(
                    "view_latency",
                    bootstrap=broker.bootstrap,
                    address=database.address,
                    rows=bench.sizes.latency_rows,
                    rate=bench.sizes.latency_rate,
                )
        for place in PLACES:
            for figure in FIGURES:
                yield f"view-latency-{place}-{figure}", Sample(value=figures[f"{place}-{figure}"])
