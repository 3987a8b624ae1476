"""The `Table` sink compared with a typical `foreachBatch` with `executemany`."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.broker.brokers import Durability, running_broker
from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.pipeline.bench import Bench, Subject

DATABASES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


class Tables(Subject):
    name = "pipeline-table"
    title = "2 M upserts of 200,000 keys in four batches, from files into a table"
    sides = (Side.HEADRACE, Side.SPARK)

    @property
    def rows(self) -> tuple[Row, ...]:
        rows = []
        for database, name in DATABASES.items():
            whole = Row(
                key=f"table-{database}",
                what=f"`Table` in {name}, compared with `foreachBatch` and `executemany`",
                unit=Unit.RECORDS_PER_S,
                goals=(Goal(at_least=5.0, against_best=True),),
            )
            batches = Row(
                key=f"table-{database}-batches",
                what="the same, only the time of the batches, without the start and end of the query",
                unit=Unit.RECORDS_PER_S,
            )
            rows += [whole, batches]
        return tuple(rows)

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        databases = [database for database in DATABASES if bench.wants(f"table-{database}")]
        bench.show_step(", ".join(databases))
        # The broker is for the reports of the job on its progress, which are part of a job.
        with bench.folder() as folder, running_broker(Side.HEADRACE, folder, Durability.OS) as broker:
            figures = bench.run_program(
                "table_sink",
                side=side,
                databases=databases,
                bootstrap=broker.bootstrap,
                rows=bench.sizes.upserts,
                keys=bench.sizes.upsert_keys,
            )
        for database in databases:
            yield f"table-{database}", Sample(value=figures[database])
            yield f"table-{database}-batches", Sample(value=figures[f"{database}-batches"])
