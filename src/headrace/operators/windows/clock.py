"""Windows with fixed boundaries: tumbling, hopping and sampling windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from headrace.operators.late import Correct
from headrace.operators.operator import BadOperator, Duration, duration_us, interval_text, time_us
from headrace.operators.windows.lifting import ClockLift, ClockSlots, WindowLift
from headrace.operators.windows.panes import PaneStep
from headrace.operators.windows.window import NativeWindow
from headrace.operators.windows.zones import (
    ZoneSlots,
    require_days,
    require_zone,
    with_zone_windows,
    zone_window,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OVERLAPS_MAX = 1_000
"""The most windows that a row may be in: each window has its own row of state."""


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
        require_zone(self.zone, operator=kind)
        require_days(self.zone, slots, operator=kind)
        return ZoneSlots(
            zone=self.zone, length_us=slots.length_us, every_us=every_us, offset_us=slots.offset_us
        )

    def __post_init__(self) -> None:
        _ = self.slots
        NativeWindow.__post_init__(self)

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

    def _lift(self, step: PaneStep) -> WindowLift:
        return ClockLift(step, self.slots)


def spark_window(slots: ClockSlots, time: str) -> Column:
    """The windows as an expression of Spark's `window` function."""
    from pyspark.sql import functions as F

    return F.window(
        F.col(f"`{time}`"),
        interval_text(slots.length_us),
        interval_text(slots.every_us),
        interval_text(slots.offset_us) if slots.offset_us else None,
    )


@dataclass(frozen=True, slots=True)
class Tumbling(ClockWindow):
    """Windows of fixed length that do not overlap and have no gaps.

        op.Tumbling("1 minute", by="url", aggregate={"n": "count(*)"})

    length   the length of a window
    offset   the start of the first window, as a duration since the epoch: "15 minutes" for hours from quarter past
    zone     the time zone of windows of whole days, such as "Europe/Berlin"; UTC by default

    All windows also have the fields `by`, `aggregate`, `time`, `trigger` and `late`.
    """


@dataclass(frozen=True, slots=True)
class Hopping(ClockWindow):
    """Windows of fixed length that start at fixed intervals and overlap. Each row is in length / every windows.

        op.Hopping("10 minutes", every="1 minute", by="url", aggregate={"mean_ms": "avg(ms)"})

    length   the length of a window
    every    the duration from the start of one window to the start of the next; at most `length` (else see `Sampling`)
    offset   the start of the first window, as a duration since the epoch
    zone     the time zone of windows of whole days, such as "Europe/Berlin"; UTC by default
    """

    every: Duration = field(kw_only=True)

    period: ClassVar[str] = "every"

    def __post_init__(self) -> None:
        slots = self.slots
        if slots.every_us > slots.length_us:
            raise BadOperator(
                "Hopping",
                "every",
                f"is {self.every!r}, longer than the length {self.length!r}: rows between windows would be in none",
                hint="use Sampling if that is intended",
            )
        if slots.length_us > slots.every_us * OVERLAPS_MAX:
            raise BadOperator(
                "Hopping",
                "every",
                f"is {self.every!r}: each row would be in more than {OVERLAPS_MAX:,} windows of {self.length!r}",
                hint="increase every, or shorten the length",
            )
        ClockWindow.__post_init__(self)


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
        ClockWindow.__post_init__(self)

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
        """Spark rejects gaps between windows. So Spark's windows include the gap before a window, which has no rows."""
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
