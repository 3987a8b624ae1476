"""Windows that run on Spark's native aggregation if they emit a single result at their end."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.operators.aggregates import are_for_spark, native_column
from headrace.operators.late import DropLate
from headrace.operators.windows.window import Window
from headrace.plan_names import BATCH_WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeWindow(Window):
    """A window that runs natively on Spark, or on the state core if a trigger, corrections or aggregates need it."""

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

    def _results(self, rows: DataFrame, time: str) -> DataFrame:
        if not self.is_native:
            return Window._results(self, rows, time)
        from pyspark.sql import functions as F

        grouped = self._native_rows(rows, time).groupBy(
            self._native_window(time).alias("__window"), *(F.col(f"`{name}`") for name in self.keys)
        )
        results = grouped.agg(*(native_column(each, time) for each in self.aggregates))
        start, end = self._native_bounds(F.col("__window"))
        return results.select(
            *(F.col(f"`{name}`") for name in self.keys),
            start.alias("window_start"),
            end.alias("window_end"),
            *(F.col(f"`{each.name}`") for each in self.aggregates),
            F.lit("on time").alias("pane"),
            F.lit(0).alias("revision"),
            F.lit("+").alias("op"),
            F.lit(None).cast("timestamp").alias("watermark", metadata={BATCH_WATERMARK: True}),
        )
