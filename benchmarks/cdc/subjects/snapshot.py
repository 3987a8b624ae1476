"""The first snapshot of a large table, compared with `COPY … TO` of it, and with the snapshot of Debezium."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cdc.bench import Bench, Subject
from benchmarks.cdc.followers import NAME, TIMEOUT_S, debezium, engine_rate
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

TABLE = "public.pgbench_accounts"


class Snapshot(Subject):
    name = "cdc-snapshot"
    title = "Snapshot of pgbench_accounts with 10 M rows into a topic"
    sides = (Side.HEADRACE, Side.DEBEZIUM)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (
            Row(key="copy-rate", what="`COPY … TO STDOUT` by psql", unit=Unit.RECORDS_PER_S),
            Row(
                key="snapshot-rate",
                what="rows in the log, committed",
                unit=Unit.RECORDS_PER_S,
                goals=(Goal(at_least=0.5, against_row="copy-rate"), Goal(at_least=3.0, against_best=True)),
            ),
            Row(
                key="snapshot-memory",
                what="resident memory of the capture, peak",
                unit=Unit.MEGABYTES,
                goals=(Goal(at_most=200),),
            ),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with bench.workbench(bench.sizes.scale) as (database, broker, folder):
            if side is Side.DEBEZIUM:
                bench.show_step(f"{bench.sizes.peer_rows:,} rows")
                with debezium(database, broker, folder, TABLE) as engine:
                    engine.wait_for_events(bench.sizes.peer_rows, TIMEOUT_S)
                    yield "snapshot-rate", Sample(value=engine_rate(engine))
                return
            bench.show_step(f"{database.rows:,} rows")
            database.copy_rate()  # once before, so that the table is in memory
            yield "copy-rate", Sample(value=database.copy_rate())
            figures = bench.run_program(
                "capture",
                bootstrap=broker.bootstrap,
                address=database.address,
                capture=NAME,
                tables=[TABLE],
            )
        assert figures["events"] == database.rows
        yield "snapshot-rate", Sample(value=database.rows / figures["seconds"])
        yield "snapshot-memory", Sample(value=figures["resident_mb"])
