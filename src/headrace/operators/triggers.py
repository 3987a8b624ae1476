"""When a window's result is published, and how a later result relates to an earlier one.

A window has a pane *on time*, when the watermark passes its end. It may have *early* panes before that, and *late* ones
after it, as long as `late=Correct(...)` keeps it. Triggers are looked at when a micro-batch is worked on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Literal

from headrace.operators.operator import BadOperator, Duration, duration_us, require_one_of

Panes = Literal["retracting", "accumulating", "discarding"]
"""How a pane relates to the one before it of the same window. `retracting`: the one before is retracted (`op` is `-`)
and the whole result so far is emitted (`+`). `accumulating`: the whole result so far is emitted, which replaces the one
before. `discarding`: only the rows since the one before count, and the reader adds the panes up."""


class Pane(StrEnum):
    EARLY = "early"
    ON_TIME = "on time"
    LATE = "late"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When panes come besides the one on time.

        op.Trigger(early="10 seconds", late="each")

    early   a processing time such as "10 seconds", or a number of rows: a window that changed emits a pane after that;
            None for no early panes
    late    "each" for a pane for each micro-batch with late rows, or a time, for one at most that often
    panes   "retracting" (default), "accumulating" or "discarding"
    """

    early: Duration | int | None = None
    late: Duration = "each"
    panes: Panes = "retracting"

    def __post_init__(self) -> None:
        require_one_of(self.panes, Panes, operator="Trigger", field="panes")
        if isinstance(self.early, bool) or (isinstance(self.early, int) and self.early < 1):
            raise BadOperator("Trigger", "early", f"is {self.early!r} rows", hint="one row at least")
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
        """The least time between late panes."""
        if self.late == "each":
            return 0
        return duration_us(self.late, operator="Trigger", field="late")
