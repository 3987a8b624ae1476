"""Windows with nothing in between: a look now and then."""

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
    """Windows of one length, one beginning every so often, and rows in between are in none.

        op.Sampling("1 minute", every="1 hour", by="sensor", aggregate={"mean": "avg(celsius)"})

    length   of a window
    every    the time from the beginning of one to that of the next; longer than `length`
    offset   when the first one begins, after the epoch
    zone     whose days they are, such as "Europe/Berlin", for lengths of whole days; UTC's if it is left out
    """

    every: Duration = field(kw_only=True)

    period: ClassVar[str] = "every"

    def __post_init__(self) -> None:
        if self.slots.every_us <= self.slots.length_us:
            raise BadOperator(
                "Sampling",
                "every",
                f"is {self.every!r}, not longer than a window of {self.length!r}",
                hint="windows that touch are called Tumbling, and those that overlap Hopping",
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
        """Spark refuses gaps. So its windows have the gap in front, where no row is left: they end when ours do."""
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
