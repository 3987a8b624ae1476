"""Session windows: rows of a key that are separated by less than a gap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.operators.operator import BadOperator, Duration, duration_us, interval_text
from headrace.operators.state.planned_watermark import nothing_is_late, planned_watermark_us
from headrace.operators.windows.gaps import (
    TOUCH_US,
    PerRow,
    gap_us,
    has_no_gap,
    require_interval,
    spark_interval,
)
from headrace.operators.windows.lifting import GAP, SessionLift, WindowLift
from headrace.operators.windows.panes import PaneShape, PaneStep
from headrace.operators.windows.window import NativeWindow

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(NativeWindow):
    """Session windows: all rows of a key with less than a gap between them. A session ends one gap after its last row.

        op.Session(gap="30 minutes", by="user", aggregate={"pages": "count(*)"})

    gap   the period of inactivity after which a session ends; or `PerRow(...)` for a gap per row: a session then ends
          when the gaps of all its rows have passed
    """

    gap: Duration | PerRow = field()

    def __post_init__(self) -> None:
        fixed_us = self.gap_us
        if fixed_us is not None and fixed_us <= TOUCH_US:
            raise BadOperator(
                "Session",
                "gap",
                f"is {self.gap!r}, which is too short",
                hint='set a longer gap, such as "30 minutes"',
            )
        NativeWindow.__post_init__(self)
        if self.trigger is not None and self.trigger.panes == "accumulating":
            raise BadOperator(
                "Session",
                "trigger",
                "has accumulating panes, but emitted sessions can merge, and the pane of the merged session would "
                "count their rows again",
                hint='set panes="retracting", or panes="discarding"',
            )

    @property
    def gap_us(self) -> int | None:
        """The fixed gap; None with a gap per row."""
        if isinstance(self.gap, PerRow):
            return None
        return duration_us(self.gap, operator="Session", field="gap")

    def _skip_reasons(self, rows: DataFrame, time: str) -> dict[str, Column]:
        reasons = NativeWindow._skip_reasons(self, rows, time)
        if isinstance(self.gap, PerRow):
            require_interval(rows, self.gap)
            reasons["no_gap"] = has_no_gap(self.gap)
        return reasons

    def _lifted_columns(self) -> list[Column]:
        return [gap_us(self.gap).alias(GAP)] if isinstance(self.gap, PerRow) else []

    def _step(self, shape: PaneShape) -> PaneStep:
        return PaneStep(shape, merges_overlaps=True)

    def _native_window(self, time: str) -> Column:
        from pyspark.sql import functions as F

        if isinstance(self.gap, PerRow):
            return F.session_window(F.col(f"`{time}`"), spark_interval(self.gap))
        fixed_us = self.gap_us
        assert fixed_us is not None
        return F.session_window(F.col(f"`{time}`"), interval_text(fixed_us - TOUCH_US))

    def _native_bounds(self, window: Column) -> tuple[Column, Column]:
        from pyspark.sql import functions as F

        return window["start"], window["end"] + F.expr(f"interval {interval_text(TOUCH_US)}")

    def _lift(self, step: PaneStep) -> WindowLift:
        return SessionLift(step, self.gap_us, nothing_is_late if step.is_bounded else planned_watermark_us)
