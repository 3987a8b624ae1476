"""The most frequent values, over all time or in windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.operators.aggregates import RESULT_COLUMNS
from headrace.operators.approximation.approximate import keyed_columns
from headrace.operators.approximation.running_step import COUNT, RANK, TopStep
from headrace.operators.operator import (
    BadOperator,
    Operator,
    column,
    column_name,
    names,
    require_columns,
    require_kind,
)
from headrace.operators.sketches import TOP_RESULTS_MAX, TopFold
from headrace.operators.tables.columns import as_changelog, fields_of, kept_for
from headrace.operators.tables.group_step import TotalsLift
from headrace.operators.tables.weighted import OP
from headrace.operators.windows.window import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class TopN(Operator):
    """Find the most frequent values of a column, with their counts, as rows.

        clicks.transform(op.TopN(100, of="url", within=op.Tumbling("1 hour")))
        clicks.transform(op.TopN(10, of="url", by="country"))

    The output has the columns of `by`, the `rank` from 1, the value under the name of its column, its `count`, and
    `op`. In windows, it also has the columns of every window. Over all time, a rank whose value or count changes is
    retracted and emitted again, once per micro-batch.

    count    the number of values per key
    of       the column of the values; null is not counted
    by       the columns of the key; empty for the most frequent of all rows
    within   the window: any of op.Tumbling, op.Hopping, op.Session …, without `by` and `aggregate`; all time by default

    Counts are exact as long as a key has no more than 1,000 distinct values, or 10 for each of `count`. Beyond that, a
    count is never too high, and too low by at most the number of rows divided by that limit.
    """

    count: int
    _: KW_ONLY
    of: str
    by: str | Sequence[str] = ()
    within: Window | None = None

    def __post_init__(self) -> None:
        require_kind(self.count, int, operator="TopN", field="count", hint="set a number of values")
        if not 1 <= self.count <= TOP_RESULTS_MAX:
            raise BadOperator(
                "TopN",
                "count",
                f"is {self.count!r}",
                hint=f"set a number of values from 1 to {TOP_RESULTS_MAX:,}",
            )
        object.__setattr__(self, "of", column_name(self.of, operator="TopN", field="of"))
        object.__setattr__(self, "by", names(self.by, operator="TopN", field="by"))
        reserved = (RANK, COUNT, OP) if self.within is None else (RANK, COUNT, *RESULT_COLUMNS)
        for field, given in (("of", [self.of]), ("by", self.by)):
            for name in given:
                if name in reserved or (field == "by" and name == self.of):
                    raise BadOperator(
                        "TopN",
                        field,
                        f"names {name!r}, which is also the name of a result",
                        hint="rename the column first",
                    )
        if self.within is not None:
            self._check_window()

    def _check_window(self) -> None:
        require_kind(
            self.within,
            Window,
            operator="TopN",
            field="within",
            hint='set a window: within=op.Tumbling("1 hour")',
            problem=", which is not a window",
        )
        assert self.within is not None
        default = {"count": "count(*)"}
        if self.within.keys or self.within.aggregate != default:
            raise BadOperator(
                "TopN",
                "within",
                "is a window with by= or aggregate=, which TopN sets",
                hint='set by= of TopN, and only the length and the rules of the window: op.Tumbling("1 hour")',
            )

    def __call__(self, rows: DataFrame) -> DataFrame:
        require_columns(rows, self.by, operator="TopN", field="by")
        require_columns(rows, [self.of], operator="TopN", field="of")
        return self._of_all_time(rows) if self.within is None else self._of_windows(rows, self.within)

    def _of_windows(self, rows: DataFrame, within: Window) -> DataFrame:
        from pyspark.sql import functions as F

        quoted = self.of.replace("`", "``")
        window = replace(within, by=self.by, aggregate={"__top": f"top(`{quoted}`, {self.count})"})
        results = window(rows)
        exploded = results.select("*", F.posexplode("__top").alias("__position", "__value"))
        ranked = (F.col("__position") + 1).alias(RANK)
        value = F.col("__value")["value"].alias(self.of)
        others = [name for name in results.columns if name not in ("__top", *self.by)]
        return exploded.select(
            *map(column, self.by), ranked, value, F.col("__value")[COUNT].alias(COUNT), *map(column, others)
        )

    def _of_all_time(self, rows: DataFrame) -> DataFrame:
        from headrace.operators.state.keys import arrow_type
        from headrace.operators.state.spark import run_step

        kind = arrow_type(rows.schema[self.of].dataType)
        if pa.types.is_nested(kind):
            raise BadOperator(
                "TopN",
                "of",
                f"names column {self.of!r}, which is {rows.schema[self.of].dataType.simpleString()}",
                hint=f'convert it to a simple value first: to_json("{self.of}")',
            )
        keys = fields_of(rows, self.by)
        step = TopStep(keys=keys, value=self.of, fold=TopFold(kind, results=self.count))
        prepared = rows.select(*keyed_columns(rows, self.by, operator="TopN"), column(self.of).alias("a0"))
        described = kept_for("TopN", [*keys, pa.field(self.of, kind)], count=self.count)
        return as_changelog(run_step(prepared, TotalsLift(step), step, name="topn", kept_for=described))
