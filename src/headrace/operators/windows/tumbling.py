"""Windows one after the other: each row is in exactly one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.operators.folds import Fold
from headrace.operators.operator import Duration, duration_us, interval_text
from headrace.operators.windows.lifting import ClockLift
from headrace.operators.windows.slots import ClockSlots
from headrace.operators.windows.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column

    from headrace.operators.state.step import Lift


@dataclass(frozen=True, slots=True)
class Tumbling(Window):
    """Windows of one length, one after the other.

        op.Tumbling("1 minute", by="url", aggregate={"n": "count(*)"})

    length   of a window
    offset   when the first one begins, after the epoch: "15 minutes" for hours that begin at a quarter past

    The other fields are those of every window: `by`, `aggregate`, `time`, `trigger`, `late`.
    """

    length: Duration
    offset: Duration = field(default="0 seconds", kw_only=True)

    def __post_init__(self) -> None:
        _ = self.slots
        Window.__post_init__(self)

    @property
    def slots(self) -> ClockSlots:
        length_us = duration_us(self.length, operator="Tumbling", field="length")
        offset_us = duration_us(self.offset, operator="Tumbling", field="offset", zero=True)
        return ClockSlots(length_us=length_us, every_us=length_us, offset_us=offset_us % length_us)

    def _native_window(self, time: str) -> Column:
        return spark_window(self.slots, time)

    def _lift(self, folds: Sequence[Fold], schema: pa.Schema) -> Lift:
        return ClockLift(self.slots, folds, schema)


def spark_window(slots: ClockSlots, time: str) -> Column:
    """As Spark's own function makes them."""
    from pyspark.sql import functions as F

    return F.window(
        F.col(f"`{time}`"),
        interval_text(slots.length_us),
        interval_text(slots.every_us),
        interval_text(slots.offset_us) if slots.offset_us else None,
    )
