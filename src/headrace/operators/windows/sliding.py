"""Sliding windows: a window ends at every row and looks back from it."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.operators.operator import BadOperator, Duration, duration_us
from headrace.operators.windows.lifting import InstantLift, WindowLift
from headrace.operators.windows.panes import PaneShape, PaneStep
from headrace.operators.windows.sliding_panes import SlidingStep
from headrace.operators.windows.window import Window


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
        Window.__post_init__(self)
        if self.trigger is not None and self.trigger.panes == "discarding":
            raise BadOperator(
                "Sliding",
                "trigger",
                "has discarding panes, but a row is in several windows, so no window can discard it",
                hint='set panes="retracting" or panes="accumulating"',
            )

    @property
    def within_us(self) -> int:
        return duration_us(self.within, operator="Sliding", field="within")

    @property
    def excludes_end(self) -> bool:
        return False

    def _step(self, shape: PaneShape) -> PaneStep:
        return SlidingStep(shape, length_us=self.within_us)

    def _lift(self, step: PaneStep) -> WindowLift:
        return InstantLift(step, self.within_us)
