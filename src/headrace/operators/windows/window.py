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
    COUNT_DISTINCT,
    RESULT_COLUMNS,
    Aggregate,
    Formula,
    Result,
    aggregates_of,
    are_for_spark,
    inputs_of,
    named_folds,
    native_column,
    read_results,
    require_folds,
    with_formulas,
    with_rates,
)
from headrace.operators.append_plans import with_append_plan
from headrace.operators.emitted_times import (
    EmittedTime,
    emitted_time,
    require_final_rows,
    with_emitted_time,
    with_last_instant,
)
from headrace.operators.late import Correct, DropLate, Late, require_late, side_output
from headrace.operators.late_rows import original_row
from headrace.operators.lost_events import loss_of
from headrace.operators.operator import (
    BadOperator,
    Operator,
    canonical_text,
    event_time_column,
    names,
    require_columns,
    require_watermark,
    time_name,
)
from headrace.operators.spark_columns import Aggregates, aggregate_texts
from headrace.operators.triggers import Trigger, require_trigger
from headrace.operators.windows.lifting import WindowLift
from headrace.operators.windows.panes import PaneRules, PaneShape, PaneStep
from headrace.operators.windows.processing_time import ARRIVED, ProcessingTime, with_arrival
from headrace.operators.windows.skipped_rows import has_no_time, is_before_1970, skip_rows
from headrace.plan_names import BATCH_WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


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
        if not isinstance(self.time, ProcessingTime):
            object.__setattr__(self, "time", time_name(self.time, operator=kind))
        require_trigger(self.trigger, operator=kind)
        require_late(self.late, operator=kind)
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
    def results(self) -> tuple[Result, ...]:
        return read_results(cast(Mapping[str, str], self.aggregate), operator=type(self).__name__)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        return aggregates_of(self.results)

    @property
    def is_native(self) -> bool:
        """Whether the window runs natively on Spark."""
        return False

    @property
    def excludes_end(self) -> bool:
        """Whether a row at `window_end` belongs to a later window."""
        return True

    def __call__(self, rows: DataFrame) -> DataFrame:
        kind = type(self).__name__
        require_columns(rows, self.keys, operator=kind, field="by")
        if isinstance(self.time, ProcessingTime):
            rows, time = with_arrival(rows, operator=kind), ARRIVED
        else:
            time = event_time_column(rows, self.time, operator=kind)
        require_watermark(rows, time, operator=kind)
        require_final_rows(rows, operator=kind)
        before = emitted_time(rows, time)
        rows, time = with_last_instant(rows, time)
        rows = skip_rows(rows, self._skip_reasons(rows, time), name=kind.lower())
        results = with_rates(self._results(rows, time), self.aggregates)
        results = with_formulas(results, self.results, operator=kind)
        rules = self._rules()
        emitted = EmittedTime(
            lag_us=before.lag_us + rules.within_us,
            is_window_end=self.excludes_end,
            panes="one" if rules.emits_once else rules.panes,
        )
        return with_emitted_time(results, "window_end", rows.schema[time], emitted)

    def _skip_reasons(self, rows: DataFrame, time: str) -> dict[str, Column]:
        """The conditions on which a row is skipped, by the name of their counter."""
        reasons = {"no_time": has_no_time(time)}
        return reasons | ({"before_1970": is_before_1970(time)} if rows.isStreaming else {})

    def _step(self, shape: PaneShape) -> PaneStep:
        return PaneStep(shape)

    def _lifted_columns(self) -> list[Column]:
        """The columns that the lift needs besides key, time and values."""
        return []

    @abc.abstractmethod
    def _lift(self, step: PaneStep) -> WindowLift: ...

    def _results(self, rows: DataFrame, time: str) -> DataFrame:
        from headrace.operators.state.keys import arrow_type, keyed_columns
        from headrace.operators.state.spark import run_step

        kind = type(self).__name__
        require_folds(self.aggregates, operator=kind, why="in a window that does not run natively on Spark")
        inputs = inputs_of(self.aggregates, loss=loss_of(rows))
        columns, values = keyed_columns(rows, self.keys, time, inputs, operator=kind)
        folds = named_folds(rows, self.aggregates, values, operator=kind)
        keys = [pa.field(name, arrow_type(rows.schema[name].dataType)) for name in self.keys]
        # Bounded rows are complete before anything is emitted: nothing is early, and nothing is late.
        rules = self._rules() if rows.isStreaming else PaneRules()
        step = self._step(PaneShape(keys=keys, folds=folds, rules=rules, is_bounded=not rows.isStreaming))
        if rules.keeps_late:
            columns.append(original_row(rows).alias(f"a{len(folds)}"))
        late_to = side_output(self.late)
        return run_step(
            rows.select(*columns, *self._lifted_columns()),
            self._lift(step),
            step,
            name=kind.lower(),
            kept_for=self._kept_for(time),
            late_topic=late_to.topic if late_to else None,
            alarm_above=self.late.alarm_above if isinstance(self.late, DropLate) else None,
            lag_us=emitted_time(rows, time).lag_us,
        )

    def _kept_for(self, time: str) -> str:
        """A text of everything that the state depends on: if it changes, the stored state is not valid any more."""
        settings = {each.name: getattr(self, each.name) for each in fields(self)}
        settings |= {"time": time, "trigger": (self.trigger or Trigger()).panes}
        del settings["late"]
        arguments = (f"{name}={canonical_text(each)}" for name, each in sorted(settings.items()))
        return f"{type(self).__name__}({', '.join(arguments)})"

    def _rules(self) -> PaneRules:
        trigger = self.trigger or Trigger()
        return PaneRules(
            within_us=self.late.within_us if isinstance(self.late, Correct) else 0,
            early=trigger.early_firing,
            on_time=trigger.on_time,
            late=trigger.late_firing,
            panes=trigger.panes,
            keeps_late=side_output(self.late) is not None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeWindow(Window):
    """A window that runs natively on Spark, or on the state core if a trigger, corrections or aggregates need it, or if
    the output mode is `append`, where the core is faster."""

    @property
    def is_native(self) -> bool:
        is_plain = self.trigger is None and (self.late is None or self.late == DropLate())
        return is_plain and are_for_spark(self.aggregates, operator=type(self).__name__)

    @abc.abstractmethod
    def _native_window(self, time: str) -> Column:
        """Spark's window column for a row."""

    def _native_bounds(self, window: Column) -> tuple[Column, Column]:
        """The start and the end of Spark's window."""
        return window["start"], window["end"]

    def _native_rows(self, rows: DataFrame, time: str) -> DataFrame:
        """The rows that are in at least one window."""
        return rows

    def _require_streaming_aggregates(self) -> None:
        for each in self.aggregates:
            if each.function == COUNT_DISTINCT:
                raise BadOperator(
                    type(self).__name__,
                    "aggregate",
                    f"has {each.text!r}, which Spark does not support on streams",
                    hint=f'use "distinct({each.arguments[0]})"',
                )

    def _results(self, rows: DataFrame, time: str) -> DataFrame:
        # Spark would drop rows as late that the operator before emits after the watermark.
        if not self.is_native or emitted_time(rows, time).lag_us > 0:
            return Window._results(self, rows, time)
        from pyspark.sql import functions as F

        if rows.isStreaming:
            self._require_streaming_aggregates()
        grouped = self._native_rows(rows, time).groupBy(
            self._native_window(time).alias("__window"), *(F.col(f"`{name}`") for name in self.keys)
        )
        columns = [
            column
            for each in self.results
            for column in (
                [F.expr(each.text).alias(each.name)]
                if isinstance(each, Formula) and each.is_for_spark
                else [native_column(part, time) for part in aggregates_of([each])]
            )
        ]
        results = grouped.agg(*columns)
        start, end = self._native_bounds(F.col("__window"))
        native = results.select(
            *(F.col(f"`{name}`").alias(name, metadata={}) for name in self.keys),
            start.alias("window_start"),
            end.alias("window_end"),
            *(F.col(f"`{name}`") for name in results.columns[1 + len(self.keys) :]),
            F.lit("on time").alias("pane"),
            F.lit(0).alias("revision"),
            F.lit("+").alias("op"),
            F.lit(None).cast("timestamp").alias("watermark", metadata={BATCH_WATERMARK: True}),
        )
        if not rows.isStreaming or not all(each.has_fold() for each in self.aggregates):
            return native
        return with_append_plan(native, lambda: Window._results(self, rows, time))
