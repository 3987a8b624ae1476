"""Reads of a view while it is rebuilt beside writes, compared with reads of the same view at rest."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.broker.brokers import Durability, running_broker
from benchmarks.cdc.bench import Bench, Subject
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

FIGURES = ("quiet-p99", "rebuild-p99", "rows-per-s")


class ViewRebuild(Subject):
    name = "view-rebuild"
    title = "Reads of a SQLite view by key while it is rebuilt and its topic is written; a read that fails ends the run"
    sides = (Side.HEADRACE,)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (
            Row(key="view-quiet-p99", what="p99 of reads, nothing else runs", unit=Unit.MILLISECONDS),
            Row(
                key="view-rebuild-p99",
                what="p99 of reads, during the rebuild",
                unit=Unit.MILLISECONDS,
                goals=(Goal(at_most=2, against_row="view-quiet-p99"),),
            ),
            Row(key="view-rows-per-s", what="rows of the rebuild", unit=Unit.RECORDS_PER_S),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with (
            bench.folder() as folder,
            running_broker(Side.HEADRACE, folder / "broker", Durability.FSYNC) as broker,
        ):
            bench.show_step(f"a view of {bench.sizes.view_rows:,} rows")
            figures = bench.run_program(
                "view_rebuild", bootstrap=broker.bootstrap, rows=bench.sizes.view_rows
            )
        for figure in FIGURES:
            yield f"view-{figure}", Sample(value=figures[figure])
