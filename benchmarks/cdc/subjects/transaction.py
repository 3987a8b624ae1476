"""One transaction of a million rows: the rate, and the memory of the capture."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.cdc.bench import Bench, Subject
from benchmarks.cdc.followers import NAME
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

TABLE = "public.large"


class LargeTransaction(Subject):
    name = "cdc-transaction"
    title = "One transaction that inserts 1 M rows"
    sides = (Side.HEADRACE,)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (
            Row(key="transaction-rate", what="changes in the log, committed", unit=Unit.RECORDS_PER_S),
            Row(
                key="transaction-memory",
                what="resident memory of the capture, peak",
                unit=Unit.MEGABYTES,
                goals=(Goal(at_most=200),),
            ),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with bench.workbench() as (database, broker, _folder):
            database.execute("CREATE TABLE large (id bigint PRIMARY KEY, title text, at timestamptz)")
            arguments = {
                "bootstrap": broker.bootstrap,
                "address": database.address,
                "capture": NAME,
                "tables": [TABLE],
            }
            bench.run_program("capture", **arguments)
            rows = bench.sizes.large_rows
            database.execute(
                f"INSERT INTO large SELECT n, 'row ' || n, now() FROM generate_series(1, {rows}) n"
            )
            bench.show_step(f"{rows:,} rows")
            figures = bench.run_program("capture", **arguments)
        assert figures["events"] == rows
        yield "transaction-rate", Sample(value=rows / figures["seconds"])
        yield "transaction-memory", Sample(value=figures["resident_mb"])
