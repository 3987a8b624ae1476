"""Correction of device clocks: event times in the time of the server's clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from headrace.operators.operator import (
    BadOperator,
    Duration,
    Operator,
    column_name,
    duration_us,
    require_timestamp,
    time_us,
)
from headrace.plan_names import EVENT_TIME, WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

AGE_MAX = "30 days"
"""A phone may be offline for the length of a holiday. An older event was most likely recorded before the device's clock
was set, so that the two times of the device are unrelated."""


class Verdict(StrEnum):
    """How the event time of a row was determined."""

    CORRECTED = "corrected"
    KEPT = "kept"
    """The difference between the clocks is within the tolerance."""
    NOT_BELIEVED = "not believed"
    """Replaced by the time of receipt, which is the latest possible event time."""
    UNKNOWN = "unknown"
    """The time of receipt is null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectClock(Operator):
    """Correct event times of devices with wrong clocks, from three times: the event and the sending by the device's
    clock, and the receipt by the server's clock.

        events.transform(op.CorrectClock(event="at", sent="sent_at", received="_timestamp", into="happened_at"))

    The error of the device's clock is received - sent (including the network latency). It is added to the time of the
    event. So only the server's clock and the delay on the device (sent - event) matter: a clock that is set to 1970 is
    corrected as well as any other. An event time that is not plausible is replaced by the time of receipt.

    `into` becomes the event time. Declare the watermark after this operator: `.withWatermark("happened_at", "1 hour")`.
    Two more columns describe the correction: `happened_at_correction_ms` (into - event) and `happened_at_clock`
    ("corrected", "kept", "not believed", "unknown").

    event       the time of the event, by the device's clock
    sent        the time of sending, by the device's clock
    received    the time of receipt, by the server's clock
    into        the column of the corrected time; may be the column of `event`
    tolerance   a difference up to this is attributed to the network, and the event time is not changed
    age_max     the longest plausible delay on the device; an event with a longer or negative delay is not believed
    offset_max  the largest plausible error of a clock; None for no limit
    """

    event: str
    sent: str
    received: str
    into: str
    tolerance: Duration = "0 seconds"
    age_max: Duration = AGE_MAX
    offset_max: Duration | None = None

    def __post_init__(self) -> None:
        _ = self.tolerance_us, self.age_max_us, self.offset_max_us
        for name in ("event", "sent", "received", "into"):
            object.__setattr__(
                self, name, column_name(getattr(self, name), operator="CorrectClock", field=name)
            )
        if self.into in (self.sent, self.received):
            raise BadOperator(
                "CorrectClock",
                "into",
                f"is {self.into!r}, which would be overwritten",
                hint="choose a new name, or the column of `event`",
            )

    @property
    def tolerance_us(self) -> int:
        return duration_us(self.tolerance, operator="CorrectClock", field="tolerance", zero=True)

    @property
    def age_max_us(self) -> int:
        return duration_us(self.age_max, operator="CorrectClock", field="age_max")

    @property
    def offset_max_us(self) -> int | None:
        if self.offset_max is None:
            return None
        return duration_us(self.offset_max, operator="CorrectClock", field="offset_max")

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        self._check(rows)
        verdict = self._verdict()
        into_us = self._into_us(verdict)
        columns = {
            self.into: F.timestamp_micros(into_us).alias(self.into, metadata={EVENT_TIME: True}),
            f"{self.into}_correction_ms": F.floor(F.try_subtract(into_us, time_us(self.event)) / 1000),
            f"{self.into}_clock": verdict,
        }
        return _without_event_time(rows).withColumns(columns)

    def _check(self, rows: DataFrame) -> None:
        for role in ("event", "sent", "received"):
            require_timestamp(rows, getattr(self, role), operator="CorrectClock", field=role)
        if rows.isStreaming and WATERMARK_DELAY in rows.schema[self.event].metadata:
            raise BadOperator(
                "CorrectClock",
                "event",
                f"is column {self.event!r}, which has a watermark, based on clocks that are not corrected yet",
                hint=f'remove that watermark, and add .withWatermark("{self.into}", …) after this operator',
            )

    def _verdict(self) -> Column:
        from pyspark.sql import functions as F

        age_us = F.try_subtract(time_us(self.sent), time_us(self.event))
        offset_us = F.abs(self._offset_us())
        is_believed = age_us.between(0, self.age_max_us) & offset_us.isNotNull()
        if self.offset_max_us is not None:
            is_believed &= offset_us <= self.offset_max_us
        return (
            F.when(F.col(f"`{self.received}`").isNull(), Verdict.UNKNOWN.value)
            .when(is_believed & (offset_us <= self.tolerance_us), Verdict.KEPT.value)
            .when(is_believed, Verdict.CORRECTED.value)
            .otherwise(Verdict.NOT_BELIEVED.value)
        )

    def _offset_us(self) -> Column:
        from pyspark.sql import functions as F

        return F.try_subtract(time_us(self.received), time_us(self.sent))

    def _into_us(self, verdict: Column) -> Column:
        """The corrected time; null, and so in no window, without a time of receipt: a wrong time would move the
        watermark."""
        from pyspark.sql import functions as F

        corrected_us = F.try_add(time_us(self.event), self._offset_us())
        return (
            F.when(verdict == Verdict.CORRECTED.value, corrected_us)
            .when(verdict == Verdict.KEPT.value, F.least(time_us(self.event), time_us(self.received)))
            .otherwise(time_us(self.received))
        )


def _without_event_time(rows: DataFrame) -> DataFrame:
    """The rows without a declared event time."""
    from pyspark.sql import functions as F

    for each in rows.schema.fields:
        if each.metadata.get(EVENT_TIME):
            metadata = {**each.metadata, EVENT_TIME: False}
            rows = rows.withColumn(each.name, F.col(f"`{each.name}`").alias(each.name, metadata=metadata))
    return rows
