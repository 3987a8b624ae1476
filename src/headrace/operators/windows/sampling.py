"""Sampling windows: windows of fixed length with gaps between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from headrace.operators.operator import BadOperator, Duration, interval_text, time_us
from headrace.operators.windows.clock import ClockWindow, spark_window
from headrace.operators.windows.slots import ClockSlots
from headrace.operators.windows.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class Sampling(ClockWindow):
    """Windows of fixed length that start at fixed intervals. Rows between two windows are dropped.

        op.Sampling("1 minute", every="1 hour", by="sensor", aggregate={"mean": "avg(celsius)"})

    length   the length of a window
    every    the duration from the start of one window to the start of the next; longer than `length`
    offset   the start of the first window, as a duration since the epoch
    zone     the time zone of windows of whole days, such as "Europe/Berlin"; UTC by default
    """

    every: Duration = field(kw_only=True)

    period: ClassVar[str] = "every"

    def __post_init__(self) -> None:
        if self.slots.every_us <= self.slots.length_us:
            raise BadOperator(
                "Sampling",
                "every",
                f"is {self.every!r}, not longer than the length {self.length!r}",
                hint="use Tumbling for windows without gaps, or Hopping for windows that overlap",
            )
        Window.__post_init__(self)

    @property
    def _unsampled_us(self) -> int:
        return self.slots.every_us - self.slots.length_us

    def _native_rows(self, rows: DataFrame, time: str) -> DataFrame:
        from pyspark.sql import functions as F

        if self.zone is not None:
            return ClockWindow._native_rows(self, rows, time)
        since_us = F.pmod(time_us(time) - self.slots.offset_us, F.lit(self.slots.every_us))
        return rows.filter(since_us < self.slots.length_us)

    def _native_window(self, time: str) -> Column:
        """Spark refuses gaps between windows. So Spark's windows include the gap before a window, which has no rows."""
        if self.zone is not None:
            return ClockWindow._native_window(self, time)
        slots = self.slots
        offset_us = (slots.offset_us - self._unsampled_us) % slots.every_us
        return spark_window(
            ClockSlots(length_us=slots.every_us, every_us=slots.every_us, offset_us=offset_us), time
        )

    def _native_bounds(self, window: Column) -> tuple[Column, Column]:
        from pyspark.sql import functions as F

        if self.zone is not None:
            return ClockWindow._native_bounds(self, window)
        return window["start"] + F.expr(f"interval {interval_text(self._unsampled_us)}"), window["end"]
