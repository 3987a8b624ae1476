"""Windows of so many rows, in the order of their times."""

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
    """The first `rows` rows of a key by time, then the next ones, and so on, however long that takes.

        op.Counting(100, by="sensor", aggregate={"mean": "avg(celsius)"})

    A window is over when it is full and the watermark has passed its last row, so that the order in which rows arrive
    changes nothing. Rows of one time are ordered by what is aggregated of them. `window_start` and `window_end` are the
    times of the first and the last row, which are both in it.

    rows   how many a window has

    What is left at the end, too few rows for a window, is said only where early panes are asked for, and as `early`.
    A late row that is worked in (`Correct`) moves all that come after it by one: those windows are taken back, and said
    as they are now.
    """

    rows: int

    def __post_init__(self) -> None:
        said: object = self.rows
        if isinstance(said, bool) or not isinstance(said, int) or said < 1:
            raise BadOperator("Counting", "rows", f"is {self.rows!r}", hint="a whole number, one at least")
        if self.trigger is not None and self.trigger.panes != "retracting":
            raise BadOperator(
                "Counting",
                "trigger",
                f"has {self.trigger.panes} panes; but rows can move from a window that was published to the next one",
                hint='panes="retracting"',
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
            says_rest=bounded and wants_early,
        )

    def _lift(self, folds: Sequence[Fold], schema: pa.Schema) -> Lift:
        return CountLift(folds, schema)

    def _lifted_columns(self) -> list[Column]:
        """A number that orders rows of one time, whatever the order in which they came: a hash of what is aggregated.

        Rows that are the same in that are the same to every result. Spark's hash passes over a null, so that it is
        said apart.
        """
        from pyspark.sql import functions as F

        inputs = [F.expr(text) for text in self._inputs().values()]
        hashed = [part for each in inputs for part in (each.isNull(), each)]
        return [F.xxhash64(F.lit(0), *hashed).alias(TIE)]
