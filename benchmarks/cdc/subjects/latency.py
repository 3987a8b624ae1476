"""From the commit in the database to a reader of the topic."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cdc.bench import Bench, Subject
from benchmarks.cdc.followers import following
from benchmarks.measurements import Row, Sample, Side, Unit

TABLE = "public.ticks"
FIGURES = {"p50": "median", "p99": "p99"}


class Latency(Subject):
    name = "cdc-latency"
    title = "From COMMIT in PostgreSQL to a reader of committed records, 100 transactions/s"
    sides = (Side.HEADRACE, Side.DEBEZIUM)

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            Row(key=f"latency-{figure}", what=what, unit=Unit.MILLISECONDS)
            for figure, what in FIGURES.items()
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with bench.workbench() as (database, broker, folder):
            database.execute("CREATE TABLE ticks (id bigserial PRIMARY KEY, at bigint)")
            with following(side, database, broker, folder, TABLE):
                bench.show_step(f"{bench.sizes.latency_rows:,} commits")
                figures = bench.run_program(
                    "latency",
                    bootstrap=broker.bootstrap,
                    address=database.address,
                    rows=bench.sizes.latency_rows,
                    rate=bench.sizes.latency_rate,
                )
        for figure in FIGURES:
            yield f"latency-{figure}", Sample(value=figures[figure])
