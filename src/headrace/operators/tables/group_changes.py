"""Continuous aggregation of a changelog by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from headrace.operators.aggregates import Aggregate, read_aggregates
from headrace.operators.operator import BadOperator, Operator, column, names, require_columns
from headrace.operators.spark_columns import Aggregates, aggregate_texts
from headrace.operators.tables import columns as of
from headrace.operators.tables.group_step import TotalsLift, TotalsStep, ValuesStep, total_of
from headrace.operators.tables.weighted import OP, WeightedLift

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headrace.operators.state.step import Lift

AGGREGATES = ("avg", "count", "max", "mean", "min", "stddev", "stddev_samp", "sum")
"""The aggregates that do not depend on the time of a row: a changelog has no event time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChanges(Operator):
    """Aggregate the view of a changelog by group, continuously: `GROUP BY` on a table that changes.

        orders.transform(op.GroupChanges(by="city", aggregate={"n": "count(*)", "total": "sum(amount)"}))

    A retracted row is subtracted. When a group changes, its old result is retracted (`op` is `-`) and the new result
    is emitted (`+`). The result of a group that becomes empty is retracted.

    by          the columns of the group; empty for one group of all rows
    aggregate   results by name: count, sum, avg, min, max or stddev of any expression on the row; or Spark columns

    Counts, and sums and averages of integers, need one row of state per group. Any other aggregate stores each
    distinct value of a group.
    """

    by: str | Sequence[str] = ()
    aggregate: Aggregates = field(default_factory=lambda: {"count": "count(*)"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", names(self.by, operator="GroupChanges", field="by"))
        object.__setattr__(self, "aggregate", aggregate_texts(self.aggregate, operator="GroupChanges"))
        for each in self.by:
            if each == OP or each in self.aggregate:
                raise BadOperator(
                    "GroupChanges",
                    "by",
                    f"names {each!r}, which is also the name of a result",
                    hint="rename the column first",
                )
        for aggregate in self.aggregates:
            if aggregate.function not in AGGREGATES:
                raise BadOperator(
                    "GroupChanges",
                    "aggregate",
                    f"has {aggregate.name!r}: {aggregate.text!r}, which does not support retractions",
                    hint=f"use one of {', '.join(AGGREGATES)}, of any expression on the row",
                )

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return read_aggregates(cast(Mapping[str, str], self.aggregate), operator="GroupChanges")

    def __call__(self, rows: DataFrame) -> DataFrame:
        from headrace.operators.state.keys import hashes, key_parts
        from headrace.operators.state.spark import run_step

        require_columns(rows, self.by, operator="GroupChanges", field="by")
        weight = of.weight(rows, operator="GroupChanges")
        keys = of.fields_of(rows, self.by)
        inputs, kinds = self._inputs(rows)
        folds = [
            (each.name, each.fold(kinds.get(number), operator="GroupChanges"))
            for number, each in enumerate(self.aggregates)
        ]
        totals = [(name, total_of(fold, kinds.get(number))) for number, (name, fold) in enumerate(folds)]
        hashed = hashes(key_parts(rows, self.by, operator="GroupChanges", field="by"), "h")
        key_columns = [column(name).alias(f"k{number}") for number, name in enumerate(self.by)]
        selected = [*hashed, weight, *key_columns, *inputs]
        kept = [(name, fold) for name, fold in totals if fold is not None]
        step: TotalsStep | ValuesStep
        lift: Lift
        if len(kept) == len(folds):
            step = TotalsStep(keys=keys, folds=kept)
            lift = TotalsLift(step)
            prepared = rows.select(*selected)
        else:
            step = ValuesStep(keys=keys, folds=folds, values=sorted(kinds.items()))
            lift = WeightedLift(step.input_schema)
            prepared = _with_value_hashes(rows.select(*selected), kinds)
        kept_for = of.kept_for("GroupChanges", keys, aggregate=self.aggregate)
        return of.as_changelog(run_step(prepared, lift, step, name="group", kept_for=kept_for))

    def _inputs(self, rows: DataFrame) -> tuple[list[Column], dict[int, pa.DataType]]:
        """The aggregated values as columns `a0`…, and their types by the number of the aggregate."""
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import arrow_type

        columns, kinds = [], {}
        for number, each in enumerate(self.aggregates):
            if each.input is None:
                continue
            column = F.expr(each.input).alias(f"a{number}")
            try:
                kinds[number] = arrow_type(rows.select(column).schema[0].dataType)
            except AnalysisException as error:
                raise BadOperator(
                    "GroupChanges",
                    "aggregate",
                    f"has {each.text!r}, which Spark can't evaluate",
                    hint=str(error).splitlines()[0][:300],
                ) from error
            columns.append(column)
        return columns, kinds


def _with_value_hashes(rows: DataFrame, kinds: Mapping[int, pa.DataType]) -> DataFrame:
    from headrace.operators.state.keys import hashes

    values = [f"a{number}" for number in sorted(kinds)]
    return rows.select("*", *hashes(of.row_parts(rows, values), "r"))
