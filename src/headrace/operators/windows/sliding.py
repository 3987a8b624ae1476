"""Sliding windows: a window ends at every row and looks back from it."""

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
    """A window for every row: the rows of its key at the same time or less than `within` before it.

        op.Sliding("5 minutes", by="card", aggregate={"spent": "sum(amount)"})

    Any two rows less than `within` apart share a window, which windows with fixed boundaries can't guarantee.
    `window_end` is the time of the row and inclusive; `window_start` is `within` earlier and exclusive. Rows of a key
    with the same time share one window.

    within   the length of a window
    """

    within: Duration

    def __post_init__(self) -> None:
        _ = self.within_us
        if self.trigger is not None and self.trigger.panes == "discarding":
            raise BadOperator(
                "Sliding",
                "trigger",
                "has discarding panes, but a row is in several windows, so no window can discard it",
                hint='set panes="retracting" or panes="accumulating"',
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
