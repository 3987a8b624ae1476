"""Windows that overlap: a new one begins before the last one ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.operators.operator import BadOperator, Duration
from headrace.operators.windows.clock import ClockWindow
from headrace.operators.windows.window import Window

OVERLAPS_MAX = 1_000
"""Windows that a row may be in: each is a row of state of its own."""


@dataclass(frozen=True, slots=True)
class Hopping(ClockWindow):
    """Windows of one length, one beginning every so often; each row is in length / every of them.

        op.Hopping("10 minutes", every="1 minute", by="url", aggregate={"mean_ms": "avg(ms)"})

    length   of a window
    every    the time from the beginning of one to that of the next; not longer than `length` (see `Sampling`)
    offset   when the first one begins, after the epoch
    zone     whose days they are, such as "Europe/Berlin", for lengths of whole days; UTC's if it is left out
    """

    every: Duration = field(kw_only=True)

    period: ClassVar[str] = "every"

    def __post_init__(self) -> None:
        slots = self.slots
        if slots.every_us > slots.length_us:
            raise BadOperator(
                "Hopping",
                "every",
                f"is {self.every!r}, longer than a window of {self.length!r}: rows in between would be in none",
                hint="if that is what you want, it is called Sampling",
            )
        if slots.length_us > slots.every_us * OVERLAPS_MAX:
            raise BadOperator(
                "Hopping",
                "every",
                f"is {self.every!r}, so that a row would be in more than {OVERLAPS_MAX:,} windows of {self.length!r}",
                hint="let them begin less often",
            )
        Window.__post_init__(self)
