"""Windows that overlap: a new one begins before the last one ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.operators.folds import Fold
from headrace.operators.operator import BadOperator, Duration, duration_us
from headrace.operators.windows.lifting import ClockLift
from headrace.operators.windows.slots import ClockSlots
from headrace.operators.windows.tumbling import spark_window
from headrace.operators.windows.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column

    from headrace.operators.state.step import Lift

OVERLAPS_MAX = 1_000
"""Windows that a row may be in: each is a row of state of its own."""


@dataclass(frozen=True, slots=True)
class Hopping(Window):
    """Windows of one length, one beginning every so often; each row is in length / every of them.

        op.Hopping("10 minutes", every="1 minute", by="url", aggregate={"mean_ms": "avg(ms)"})

    length   of a window
    every    the time from the beginning of one to that of the next; not longer than `length` (see `Sampling`)
    offset   when the first one begins, after the epoch
    """

    length: Duration
    every: Duration = field(kw_only=True)
    offset: Duration = field(default="0 seconds", kw_only=True)

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

    @property
    def slots(self) -> ClockSlots:
        every_us = duration_us(self.every, operator="Hopping", field="every")
        offset_us = duration_us(self.offset, operator="Hopping", field="offset", zero=True)
        return ClockSlots(
            length_us=duration_us(self.length, operator="Hopping", field="length"),
            every_us=every_us,
            offset_us=offset_us % every_us,
        )

    def _native_window(self, time: str) -> Column:
        return spark_window(self.slots, time)

    def _lift(self, folds: Sequence[Fold], schema: pa.Schema) -> Lift:
        return ClockLift(self.slots, folds, schema)
