"""The common part of all windows: the fields of the description, and how the state core (`state/`) runs them.

The core emits panes, retractions and corrections, and counts late rows exactly.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from headrace.operators.aggregates import (
    COMPLETENESS,
    RESULT_COLUMNS,
    Aggregate,
    read_aggregates,
    require_folds,
    with_rates,
)
from headrace.operators.folds import Fold, OriginalsFold
from headrace.operators.late import Correct, DropLate, Late, side_output
from headrace.operators.late_rows import original_row
from headrace.operators.operator import (
    BadOperator,
    Operator,
    canonical_text,
    event_time_column,
    names,
    require_columns,
    require_watermark,
)
from headrace.operators.spark_columns import Aggregates, aggregate_texts
from headrace.operators.triggers import Trigger
from headrace.operators.windows.panes import PaneRules, PaneStep
from headrace.operators.windows.processing_time import ARRIVED, ProcessingTime, with_arrival
from headrace.operators.windows.skipped_rows import has_no_time, skip_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headrace.operators.state.step import Lift, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Operator):
    """The fields of every window.

    by          the columns of the key; empty for one window over all rows
    aggregate   results by name, such as {"n": "count(*)", "slowest": "max(ms)"}, or Spark columns, such as
                [F.count("*").alias("n"), F.max("ms").alias("slowest")]
    time        the column with the event time, or PROCESSING_TIME; by default the column that the source declared
    trigger     when to emit early and late panes besides the on-time pane (`Trigger`)
    late        what happens to late rows (`DropLate`, `SideOutput`, `Correct`)
    """

    by: str | Sequence[str] = ()
    aggregate: Aggregates = field(default_factory=lambda: {"count": "count(*)"})
    time: str | ProcessingTime | None = None
    trigger: Trigger | None = None
    late: Late | None = None

    def __post_init__(self) -> None:
        kind = type(self).__name__
        object.__setattr__(self, "by", names(self.by, operator=kind, field="by"))
        object.__setattr__(self, "aggregate", aggregate_texts(self.aggregate, operator=kind))
        for each in self.keys:
            if each in RESULT_COLUMNS or each in self.aggregate:
                raise BadOperator(
                    kind,
                    "by",
                    f"names {each!r}, which is also the name of a result",
                    hint="rename the column first",
                )
        aggregates = self.aggregates
        if not self.is_native:
            require_folds(aggregates, operator=kind, why="in a window that does not run natively on Spark")
        if any(each.function == COMPLETENESS for each in aggregates):
            self._require_completeness()

    def _require_completeness(self) -> None:
        raise BadOperator(
            type(self).__name__,
            "aggregate",
            "has completeness(*), which only Tumbling, Hopping and Sampling support",
            hint="use one of these; the status of a job shows the completeness of all windows",
        )

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.by)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return read_aggregates(cast(Mapping[str, str], self.aggregate), operator=type(self).__name__)

    @property
    def is_native(self) -> bool:
        """Whether the window runs natively on Spark."""
        return False

    def __call__(self, rows: DataFrame) -> DataFrame:
        kind = type(self).__name__
        require_columns(rows, self.keys, operator=kind, field="by")
        if isinstance(self.time, ProcessingTime):
            rows, time = with_arrival(rows, operator=kind), ARRIVED
        else:
            time = event_time_column(rows, self.time, operator=kind)
        require_watermark(rows, time, operator=kind)
        rows = skip_rows(rows, self._skip_reasons(rows, time), name=kind.lower())
        return with_rates(self._results(rows, time), self.aggregates)

    def _skip_reasons(self, rows: DataFrame, time: str) -> dict[str, Column]:
        """The conditions on which a row is skipped, by the name of their counter."""
        return {"no_time": has_no_time(time)}

    def _step(
        self, keys: Sequence[pa.Field], folds: Sequence[tuple[str, Fold]], rules: PaneRules, *, bounded: bool
    ) -> Step:
        return PaneStep(keys=keys, folds=folds, rules=rules)

    def _lifted_columns(self) -> list[Column]:
        """The columns that the lift needs besides key, time and values."""
        return []

    @abc.abstractmethod
    def _lift(self, folds: Sequence[Fold], schema: pa.Schema) -> Lift: ...

    def _results(self, rows: DataFrame, time: str) -> DataFrame:
        from headrace.operators.state.keys import arrow_type, keyed_columns
        from headrace.operators.state.spark import run_step

        kind = type(self).__name__
        columns, values = keyed_columns(rows, self.keys, time, self._inputs(), operator=kind)
        folds = [
            (each.name, each.fold(values.get(number), operator=kind))
            for number, each in enumerate(self.aggregates)
        ]
        keys = [pa.field(name, arrow_type(rows.schema[name].dataType)) for name in self.keys]
        # Bounded rows are complete before anything is emitted: nothing is early, and nothing is late.
        rules = self._rules() if rows.isStreaming else PaneRules()
        step = self._step(keys, folds, rules, bounded=not rows.isStreaming)
        lifted = [fold for _, fold in folds]
        if rules.keeps_late:
            columns.append(original_row(rows).alias(f"a{len(lifted)}"))
            lifted.append(OriginalsFold())
        lift = self._lift(lifted, step.input_schema)
        selected = rows.select(*columns, *self._lifted_columns())
        late_to = side_output(self.late)
        return run_step(
            selected,
            lift,
            step,
            name=kind.lower(),
            kept_for=self._kept_for(time),
            late_topic=late_to.topic if late_to else None,
            alarm_above=self.late.alarm_above if isinstance(self.late, DropLate) else None,
        )

    def _kept_for(self, time: str) -> str:
        """A text of everything that the state depends on: if it changes, the stored state is not valid any more."""
        settings = {each.name: getattr(self, each.name) for each in fields(self)}
        settings |= {"time": time, "trigger": (self.trigger or Trigger()).panes}
        del settings["late"]
        arguments = (f"{name}={canonical_text(each)}" for name, each in sorted(settings.items()))
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _inputs(self) -> dict[int, str]:
        """The aggregated expressions, by the number of the aggregate."""
        return {number: each.input for number, each in enumerate(self.aggregates) if each.input is not None}

    def _rules(self) -> PaneRules:
        trigger = self.trigger or Trigger()
        return PaneRules(
            within_us=self.late.within_us if isinstance(self.late, Correct) else 0,
            early_rows=trigger.early_rows,
            early_us=trigger.early_us,
            late_us=trigger.late_us,
            panes=trigger.panes,
            keeps_late=side_output(self.late) is not None,
        )
