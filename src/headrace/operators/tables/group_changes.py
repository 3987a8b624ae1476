"""Continuous aggregation of a changelog by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from headrace.operators.aggregates import (
    COUNT_DISTINCT,
    Aggregate,
    Result,
    aggregates_of,
    inputs_of,
    is_ansi,
    read_results,
    require_order,
    with_formulas,
)
from headrace.operators.folds import CountDistinctFold, Fold, TimedExtremeFold
from headrace.operators.operator import (
    BadOperator,
    Operator,
    column,
    event_time_column,
    names,
    require_columns,
    time_name,
)
from headrace.operators.spark_columns import Aggregates, aggregate_texts
from headrace.operators.tables import columns as of
from headrace.operators.tables.group_step import TotalsLift, TotalsStep, ValuesStep, total_of
from headrace.operators.tables.weighted import OP, WeightedLift

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.operators.state.step import Lift

AGGREGATES = (
    "avg",
    "count",
    "distinct",
    "first",
    "last",
    "max",
    "mean",
    "min",
    "stddev",
    "stddev_samp",
    "sum",
)
"""The aggregates that can be computed again without a retracted row."""

_BY_TIME = ("first", "last")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChanges(Operator):
    """Aggregate the view of a changelog by group, continuously: `GROUP BY` on a table that changes.

        orders.transform(op.GroupChanges(by="city", aggregate={"n": "count(*)", "total": "sum(amount)"}))

    A retracted row is subtracted. When a group changes, its old result is retracted (`op` is `-`) and the new result
    is emitted (`+`). The result of a group that becomes empty is retracted.

    by          the columns of the group; empty for one group of all rows
    aggregate   results by name: count, sum, avg, min, max, stddev, first, last, distinct or count(distinct x) of any
                expression on the row; or Spark columns
    time        the column with the time of a row, for first and last; by default the column that the source declared

    Counts, and sums and averages of integers and decimals, need one row of state per group. Any other aggregate stores
    each distinct value of a group; so distinct counts are exact.
    """

    by: str | Sequence[str] = ()
    aggregate: Aggregates = field(default_factory=lambda: {"count": "count(*)"})
    time: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", names(self.by, operator="GroupChanges", field="by"))
        object.__setattr__(self, "aggregate", aggregate_texts(self.aggregate, operator="GroupChanges"))
        object.__setattr__(self, "time", time_name(self.time, operator="GroupChanges"))
        for each in self.by:
            if each == OP or each in self.aggregate:
                raise BadOperator(
                    "GroupChanges",
                    "by",
                    f"names {each!r}, which is also the name of a result",
                    hint="rename the column first",
                )
        for aggregate in self.aggregates:
            if aggregate.function not in (*AGGREGATES, COUNT_DISTINCT):
                raise BadOperator(
                    "GroupChanges",
                    "aggregate",
                    f"has {aggregate.shown}, which does not support retractions",
                    hint=f"use one of {', '.join(AGGREGATES)}, of any expression on the row",
                )

    @property
    def results(self) -> tuple[Result, ...]:
        return read_results(cast(Mapping[str, str], self.aggregate), operator="GroupChanges")

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return aggregates_of(self.results)

    def __call__(self, rows: DataFrame) -> DataFrame:
        from headrace.operators.state.keys import hashes, input_columns, key_parts
        from headrace.operators.state.spark import run_step

        require_columns(rows, self.by, operator="GroupChanges", field="by")
        of.require_retractions(rows, operator="GroupChanges")
        weight = of.weight(rows, operator="GroupChanges")
        keys = of.fields_of(rows, self.by)
        timed = self._timed(rows)
        inputs, kinds = input_columns(rows, inputs_of(self.aggregates) | timed, operator="GroupChanges")
        folds = [
            (each.name, _fold(each, kinds.get(number), is_strict=is_ansi(rows)))
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
        timed_by = {"time": sorted(timed.values())} if timed else {}
        kept_for = of.kept_for("GroupChanges", keys, aggregate=self.aggregate, **timed_by)
        groups = run_step(prepared, lift, step, name="group", kept_for=kept_for)
        return of.as_changelog(with_formulas(groups, self.results, operator="GroupChanges"))

    def _timed(self, rows: DataFrame) -> dict[int, str]:
        """The inputs of aggregates by time: structs of a time and a value, by the number of the aggregate."""
        timed = {
            number: each.input for number, each in enumerate(self.aggregates) if each.function in _BY_TIME
        }
        if not timed:
            return {}
        time = event_time_column(rows, self.time, operator="GroupChanges").replace("`", "``")
        return {
            number: f"if(({text}) is null or `{time}` is null, null, "
            f"named_struct('time', `{time}`, 'value', {text}))"
            for number, text in timed.items()
        }


def _fold(aggregate: Aggregate, values: pa.DataType | None, *, is_strict: bool) -> Fold:
    function = aggregate.function
    if values is not None and function in ("distinct", COUNT_DISTINCT, *_BY_TIME):
        require_order(aggregate, values, operator="GroupChanges")
        return (
            TimedExtremeFold(values, last=function == "last")
            if function in _BY_TIME
            else CountDistinctFold(values)
        )
    return aggregate.fold(values, operator="GroupChanges", is_strict=is_strict)


def _with_value_hashes(rows: DataFrame, kinds: Mapping[int, pa.DataType]) -> DataFrame:
    from headrace.operators.state.keys import hashes

    values = [f"a{number}" for number in sorted(kinds)]
    return rows.select("*", *hashes(of.row_parts(rows, values), "r"))
