"""Windows in the strict sense of sliding: every row with what happened shortly before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.operators.folds import Fold
from headrace.operators.operator import BadOperator, Duration, duration_us
from headrace.operators.windows.lifting import InstantLift
from headrace.operators.windows.panes import PaneRules
from headrace.operators.windows.sliding_panes import SlidingStep
from headrace.operators.windows.window import Window

if TYPE_CHECKING:
    from headrace.operators.state.step import Lift, Step


@dataclass(frozen=True, slots=True)
class Sliding(Window):
    """For every time at which a row came: the rows of the key less than `within` before it, and those of that time.

        op.Sliding("5 minutes", by="card", aggregate={"spent": "sum(amount)"})

    So any two rows less than `within` apart meet in a window, which no window of fixed bounds can say. `window_end` is
    the time of the row, which is in the window; `window_start` is `within` before it, and is not.

    within   how far a window reaches back
    """

    within: Duration

    def __post_init__(self) -> None:
        _ = self.within_us
        if self.trigger is not None and self.trigger.panes == "discarding":
            raise BadOperator(
                "Sliding",
                "trigger",
                "has discarding panes; but a row counts in several windows, and can't be given away in one",
                hint='panes="retracting" or "accumulating"',
            )
        Window.__post_init__(self)

    @property
    def within_us(self) -> int:
        return duration_us(self.within, operator="Sliding", field="within")

    def _step(
        self, keys: Sequence[pa.Field], folds: Sequence[tuple[str, Fold]], rules: PaneRules, *, bounded: bool
    ) -> Step:
        return SlidingStep(keys=keys, folds=folds, rules=rules, length_us=self.within_us)

    def _lift(self, folds: Sequence[Fold], schema: pa.Schema) -> Lift:
        return InstantLift(self.within_us, folds, schema)
