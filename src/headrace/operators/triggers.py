"""Triggers: when a window emits panes, and how a pane relates to the previous one.

A window emits its *on-time* pane when the watermark passes its end. It may emit *early* panes before that, and *late*
panes after it, within the allowed lateness of `late=Correct(...)`. Triggers are evaluated in every micro-batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Literal

from headrace.operators.operator import BadOperator, Duration, duration_us, require_one_of

Panes = Literal["retracting", "accumulating", "discarding"]
"""How a pane relates to the previous pane of its window. `retracting`: the previous pane is retracted (`op` is `-`)
and the complete result so far is emitted (`+`). `accumulating`: the complete result so far is emitted and replaces the
previous pane. `discarding`: a pane has only the rows since the previous pane, and the reader adds up the panes."""


class Pane(StrEnum):
    EARLY = "early"
    ON_TIME = "on time"
    LATE = "late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When a window emits panes besides the on-time pane.

        op.Trigger(early="10 seconds", late="each")

    early   a duration in processing time such as "10 seconds", or a number of rows: a changed window emits a pane after
            that; None for no early panes
    late    "each" for a pane in every micro-batch with late rows, or a minimum duration between late panes
    panes   "retracting" (default), "accumulating" or "discarding"
    """

    early: Duration | int | None = None
    late: Duration = "each"
    panes: Panes = "retracting"

    def __post_init__(self) -> None:
        require_one_of(self.panes, Panes, operator="Trigger", field="panes")
        if isinstance(self.early, bool) or (isinstance(self.early, int) and self.early < 1):
            raise BadOperator("Trigger", "early", f"is {self.early!r} rows", hint="set at least 1 row")
        _ = self.early_us, self.late_us

    @property
    def early_rows(self) -> int | None:
        return self.early if isinstance(self.early, int) else None

    @property
    def early_us(self) -> int | None:
        if isinstance(self.early, str | timedelta):
            return duration_us(self.early, operator="Trigger", field="early")
        return None

    @property
    def late_us(self) -> int:
        """The minimum duration between late panes."""
        if self.late == "each":
            return 0
        return duration_us(self.late, operator="Trigger", field="late")
