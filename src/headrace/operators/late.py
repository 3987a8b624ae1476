"""What becomes of rows that come when the watermark has already passed the end of their window."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.operators.operator import BadOperator, Duration, duration_us


@dataclass(frozen=True, slots=True, kw_only=True)
class DropLate:
    """They are left out, and counted: the job's progress tells how many, as `late rows`.

    alarm_above   the share of late rows in a micro-batch above which a warning is logged; None for never
    """

    alarm_above: float | None = None

    def __post_init__(self) -> None:
        if self.alarm_above is not None and not 0 <= self.alarm_above <= 1:
            raise BadOperator(
                "DropLate",
                "alarm_above",
                f"is {self.alarm_above}",
                hint="a share between 0 and 1, such as 0.01",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Correct:
    """They are worked in, and the window is published again, for as long as `within` after its end.

    Its state is kept that long. Rows that are later still are left out and counted.
    """

    within: Duration

    def __post_init__(self) -> None:
        _ = self.within_us

    @property
    def within_us(self) -> int:
        return duration_us(self.within, operator="Correct", field="within")


Late = DropLate | Correct
