"""The common part of windows with fixed boundaries: length, start, and how Spark and the core run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from headrace.operators.folds import Fold
from headrace.operators.late import Correct
from headrace.operators.operator import BadOperator, Duration, duration_us, interval_text
from headrace.operators.windows.lifting import ClockLift
from headrace.operators.windows.native import NativeWindow
from headrace.operators.windows.slots import ClockSlots
from headrace.operators.windows.zones import ZoneSlots, require_zone, with_zone_windows, zone_window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headrace.operators.state.step import Lift


@dataclass(frozen=True, slots=True)
class ClockWindow(NativeWindow):
    """The fields of windows with fixed boundaries.

    length   the length of a window
    offset   the start of the first window, as a duration since the epoch
    zone     the time zone of windows of whole days, such as "Europe/Berlin"; UTC by default
    """

    length: Duration
    offset: Duration = field(default="0 seconds", kw_only=True)
    zone: str | None = field(default=None, kw_only=True)

    period: ClassVar[str] = "length"
    """The field with the duration from the start of one window to the start of the next."""

    @property
    def slots(self) -> ClockSlots:
        kind = type(self).__name__
        every_us = duration_us(getattr(self, self.period), operator=kind, field=self.period)
        offset_us = duration_us(self.offset, operator=kind, field="offset", zero=True)
        slots = ClockSlots(
            length_us=duration_us(self.length, operator=kind, field="length"),
            every_us=every_us,
            offset_us=offset_us % every_us,
        )
        if self.zone is None:
            return slots
        require_zone(self.zone, slots, operator=kind)
        return ZoneSlots(
            zone=self.zone, length_us=slots.length_us, every_us=every_us, offset_us=slots.offset_us
        )

    def _require_completeness(self) -> None:
        if not isinstance(self.late, Correct):
            raise BadOperator(
                type(self).__name__,
                "aggregate",
                "has completeness(*), which is always 1 if late rows do not correct results",
                hint='accept late rows: late=Correct(within="1 hour")',
            )

    def _native_rows(self, rows: DataFrame, time: str) -> DataFrame:
        slots = self.slots
        return with_zone_windows(rows, slots, time) if isinstance(slots, ZoneSlots) else rows

    def _native_window(self, time: str) -> Column:
        slots = self.slots
        return zone_window() if isinstance(slots, ZoneSlots) else spark_window(slots, time)

    def _lift(self, folds: Sequence[Fold], schema: pa.Schema) -> Lift:
        return ClockLift(self.slots, folds, schema)


def spark_window(slots: ClockSlots, time: str) -> Column:
    """The windows as an expression of Spark's `window` function."""
    from pyspark.sql import functions as F

    return F.window(
        F.col(f"`{time}`"),
        interval_text(slots.length_us),
        interval_text(slots.every_us),
        interval_text(slots.offset_us) if slots.offset_us else None,
    )
