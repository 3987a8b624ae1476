"""Count windows: windows of a fixed number of rows, in the order of their event time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.operators.folds import Fold
from headrace.operators.operator import BadOperator
from headrace.operators.windows.counting_panes import TIE, CountingStep, CountLift
from headrace.operators.windows.panes import PaneRules
from headrace.operators.windows.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column

    from headrace.operators.state.step import Lift, Step


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
        if self.trigger is not None and self.trigger.panes != "retracting":
            raise BadOperator(
                "Counting",
                "trigger",
                f"has {self.trigger.panes} panes, but a late row can move rows from an emitted window to the next one",
                hint='set panes="retracting"',
            )
        Window.__post_init__(self)

    def _step(
        self, keys: Sequence[pa.Field], folds: Sequence[tuple[str, Fold]], rules: PaneRules, *, bounded: bool
    ) -> Step:
        wants_early = self.trigger is not None and self.trigger.early is not None
        return CountingStep(
            keys=keys,
            folds=folds,
            rules=rules,
            window_rows=self.rows,
            emits_rest=bounded and wants_early,
        )

    def _lift(self, folds: Sequence[Fold], schema: pa.Schema) -> Lift:
        return CountLift(folds, schema)

    def _lifted_columns(self) -> list[Column]:
        """A hash of the aggregated values, which orders rows with equal times independently of their arrival.

        Rows with equal values have the same effect on every result. Spark's hash ignores nulls, so each value comes
        with a null flag.
        """
        from pyspark.sql import functions as F

        inputs = [F.expr(text) for text in self._inputs().values()]
        hashed = [part for each in inputs for part in (each.isNull(), each)]
        return [F.xxhash64(F.lit(0), *hashed).alias(TIE)]
