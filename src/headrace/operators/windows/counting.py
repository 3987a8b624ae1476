"""Count windows: windows of a fixed number of rows, in the order of their event time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.operators.aggregates import inputs_of
from headrace.operators.operator import BadOperator
from headrace.operators.windows.counting_panes import CountingStep
from headrace.operators.windows.lifting import TIE, RowLift, WindowLift
from headrace.operators.windows.panes import PaneShape, PaneStep
from headrace.operators.windows.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True, slots=True)
class Counting(Window):
    """Windows of a fixed number of rows per key: the first `rows` rows by event time, then the next ones, and so on.

        op.Counting(100, by="sensor", aggregate={"mean": "avg(celsius)"})

    A window closes when it is full and the watermark has passed its last row. So the result does not depend on the
    order of arrival. Rows with equal times are ordered by their aggregated values. `window_start` and `window_end` are
    the times of the first and the last row of the window, both inclusive.

    rows   the number of rows of a window

    At the end of bounded rows, a window that is not full is emitted only if the trigger has early panes, with pane
    `early`. A late row that is accepted (`Correct`) shifts all later rows by one: the results of the affected windows
    are retracted, and their new results are emitted.
    """

    rows: int

    def __post_init__(self) -> None:
        rows: object = self.rows
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise BadOperator("Counting", "rows", f"is {self.rows!r}", hint="set an integer of at least 1")
        Window.__post_init__(self)
        if self.trigger is not None and not self.trigger.on_time:
            raise BadOperator(
                "Counting",
                "trigger",
                "has no on-time panes, but a full window has no other",
                hint="remove on_time",
            )
        if self.trigger is not None and self.trigger.panes != "retracting":
            raise BadOperator(
                "Counting",
                "trigger",
                f"has {self.trigger.panes} panes, but a late row can move rows from an emitted window to the next one",
                hint='set panes="retracting"',
            )

    @property
    def excludes_end(self) -> bool:
        return False

    def _step(self, shape: PaneShape) -> PaneStep:
        wants_early = self.trigger is not None and self.trigger.early is not None
        return CountingStep(shape, window_rows=self.rows, emits_rest=shape.is_bounded and wants_early)

    def _lift(self, step: PaneStep) -> WindowLift:
        return RowLift(step, 0)

    def _lifted_columns(self) -> list[Column]:
        """A hash of the aggregated values, which orders rows with equal times independently of their arrival.

        Rows with equal values have the same effect on every result. Spark's hash ignores nulls, so each value comes
        with a null flag.
        """
        from pyspark.sql import functions as F

        hashed = [F.lit(0)]
        for number, text in inputs_of(self.aggregates).items():
            hashed.append(F.expr(text).isNull())
            if self.aggregates[number].function != "count":  # it depends only on null, and may be of a map
                hashed.append(F.expr(text))
        return [F.xxhash64(*hashed).alias(TIE)]
