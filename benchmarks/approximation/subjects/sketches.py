"""Sketches over all rows of a stream, and the exact aggregates of Spark, with more and more distinct values."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.approximation.bench import FULL, Bench, Subject
from benchmarks.approximation.programs.sketches import DISTINCT, PERCENTILE, TOP
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

WHAT = {
    DISTINCT: "distinct values",
    PERCENTILE: "99th percentile",
    TOP: "100 most frequent values (Spark: the counts of all)",
}

FLAT = 1.5
"""The limit on the state with a hundred times as many values. A sketch of few values is not full yet."""


class Sketches(Subject):
    name = "approximation-sketches"
    title = "Sketches over all time, and exact aggregates"
    sides = (Side.HEADRACE, Side.SPARK)

    @property
    def rows(self) -> tuple[Row, ...]:
        fewest, *_, most = FULL.values
        rows = []
        for kind, what in WHAT.items():
            for values in FULL.values:
                rate_goals = (Goal(at_least=1.0, against_best=True),) if values == most else ()
                flat = Goal(at_most=FLAT, against_row=_key("state", kind, fewest))
                rows += [
                    Row(
                        key=_key("sketch", kind, values),
                        what=f"{what}, {values:,} values",
                        unit=Unit.RECORDS_PER_S,
                        goals=rate_goals,
                    ),
                    Row(
                        key=_key("state", kind, values),
                        what=f"state in the checkpoint, {what}, {values:,} values",
                        unit=Unit.MEGABYTES,
                        goals=(flat,) if values == most else (),
                    ),
                ]
        return tuple(rows)

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        for kind in WHAT:
            for named, values in zip(FULL.values, bench.sizes.values, strict=True):
                keys = {"rate": _key("sketch", kind, named), "state_mb": _key("state", kind, named)}
                if not any(bench.wants(key) for key in keys.values()):
                    continue
                bench.show_step(f"{kind} of {values:,} values")
                figures = bench.run_program(
                    "sketches", kind=kind, exact=side is Side.SPARK, rows=bench.sizes.rows, values=values
                )
                for figure, key in keys.items():
                    yield key, Sample(value=figures[figure])


def _key(figure: str, kind: str, values: int) -> str:
    return f"{figure}-{kind}-{values}"
