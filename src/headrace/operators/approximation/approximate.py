"""Aggregates by sketches over all time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from headrace.operators.aggregates import (
    SKETCHES,
    Aggregate,
    Result,
    aggregates_of,
    inputs_of,
    named_folds,
    read_results,
    with_formulas,
)
from headrace.operators.approximation.running_step import RunningStep
from headrace.operators.emitted_times import require_final_rows
from headrace.operators.operator import BadOperator, Operator, column, names, require_columns
from headrace.operators.spark_columns import Aggregates, aggregate_texts
from headrace.operators.tables import columns as of
from headrace.operators.tables.group_step import TotalsLift
from headrace.operators.tables.weighted import OP, WEIGHT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

AGGREGATES = (*SKETCHES, "avg", "count", "max", "mean", "min", "stddev", "stddev_samp", "sum")
"""The aggregates whose state has a fixed size and does not depend on the time of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approximate(Operator):
    """Aggregate all rows so far by sketches, in a bounded number of bytes per key.

        users = {"users": "distinct(user)", "p99": "percentile(ms, 0.99)"}
        clicks.transform(op.Approximate(by="country", aggregate=users))

    When the result of a key changes, the old one is retracted (`op` is `-`) and the new one is emitted (`+`), once per
    micro-batch. Bounded rows give the last results of a stream.

    by          the columns of the key; empty for one result of all rows
    aggregate   results by name: distinct(x), percentile(x, 0.99), top(x, 10); theta_sketch(x), hll_sketch(x),
                tdigest_sketch(x), frequent_sketch(x) and count_min_sketch(x) as bytes for Apache DataSketches; count,
                sum, avg, min, max and stddev

    Rows that are retracted can't be removed from a sketch, so a changelog is rejected: `GroupChanges` applies
    retractions.
    """

    by: str | Sequence[str] = ()
    aggregate: Aggregates

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", names(self.by, operator="Approximate", field="by"))
        object.__setattr__(self, "aggregate", aggregate_texts(self.aggregate, operator="Approximate"))
        for each in self.by:
            if each == OP or each in self.aggregate:
                raise BadOperator(
                    "Approximate",
                    "by",
                    f"names {each!r}, which is also the name of a result",
                    hint="rename the column first",
                )
        for aggregate in self.aggregates:
            if aggregate.function not in AGGREGATES:
                raise BadOperator(
                    "Approximate",
                    "aggregate",
                    f"has {aggregate.shown}, whose state over all time has no bound or depends on the time of rows",
                    hint=f"use one of {', '.join(sorted(AGGREGATES))}, of any expression on the row",
                )

    @property
    def results(self) -> tuple[Result, ...]:
        return read_results(cast(Mapping[str, str], self.aggregate), operator="Approximate")

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return aggregates_of(self.results)

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import input_columns
        from headrace.operators.state.spark import run_step

        require_columns(rows, self.by, operator="Approximate", field="by")
        inputs, kinds = input_columns(rows, inputs_of(self.aggregates), operator="Approximate")
        folds = named_folds(rows, self.aggregates, kinds, operator="Approximate")
        keys = of.fields_of(rows, self.by)
        step = RunningStep(keys=keys, folds=folds)
        columns = [*keyed_columns(rows, self.by, operator="Approximate"), *inputs]
        prepared = rows.select(*columns or [F.lit(1).cast("bigint").alias(WEIGHT)])
        kept_for = of.kept_for("Approximate", keys, aggregate=self.aggregate)
        results = run_step(prepared, TotalsLift(step), step, name="approximate", kept_for=kept_for)
        return of.as_changelog(with_formulas(results, self.results, operator="Approximate"))


def keyed_columns(rows: DataFrame, by: Sequence[str], *, operator: str) -> list[Column]:
    """The hashes of the key, if there is one, and the key. Raises if rows may be retracted."""
    from headrace.operators.state.keys import hashes, key_parts

    require_final_rows(rows, operator=operator, field="by")
    parts = key_parts(rows, by, operator=operator, field="by")
    return [
        *(hashes(parts, "h") if parts else ()),
        *(column(name).alias(f"k{number}") for number, name in enumerate(by)),
    ]
