"""Hopping windows: windows of fixed length that overlap."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.operators.operator import BadOperator, Duration
from headrace.operators.windows.clock import ClockWindow
from headrace.operators.windows.window import Window

OVERLAPS_MAX = 1_000
"""The most windows that a row may be in: each window has its own row of state."""


@dataclass(frozen=True, slots=True)
class Hopping(ClockWindow):
    """Windows of fixed length that start at fixed intervals and overlap. Each row is in length / every windows.

        op.Hopping("10 minutes", every="1 minute", by="url", aggregate={"mean_ms": "avg(ms)"})

    length   the length of a window
    every    the duration from the start of one window to the start of the next; at most `length` (else see `Sampling`)
    offset   the start of the first window, as a duration since the epoch
    zone     the time zone of windows of whole days, such as "Europe/Berlin"; UTC by default
    """

    every: Duration = field(kw_only=True)

    period: ClassVar[str] = "every"

    def __post_init__(self) -> None:
        slots = self.slots
        if slots.every_us > slots.length_us:
            raise BadOperator(
                "Hopping",
                "every",
                f"is {self.every!r}, longer than the length {self.length!r}: rows between windows would be in none",
                hint="use Sampling if that is intended",
            )
        if slots.length_us > slots.every_us * OVERLAPS_MAX:
            raise BadOperator(
                "Hopping",
                "every",
                f"is {self.every!r}: each row would be in more than {OVERLAPS_MAX:,} windows of {self.length!r}",
                hint="increase every, or shorten the length",
            )
        Window.__post_init__(self)
