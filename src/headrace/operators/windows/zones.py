"""Days as a time zone has them: 23, 24 or 25 hours long, and now and then of another length.

A window of whole days begins at a reading of the zone's clock. When the clock shows that reading twice, the first one
counts; when it leaves the reading out, the window begins as much later as the clock was put forward. What is in a
window is decided by instants, not by readings: so the hour that comes twice is in one window or the other as it passed.
Python's and Java's rules for this are the same, and so are both ways to run.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from headrace.operators.operator import BadOperator
from headrace.operators.state.ids import Ints
from headrace.operators.windows.slots import ClockSlots
from headrace.plan_names import WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DAY_US = 86_400_000_000

INSTANTS_KEPT_MAX = 100_000
"""Beginnings of windows that a worker remembers: those of 270 years of days, 8 MB."""

WINDOW = "__zone_window"
"""The column in which Spark's own way has a row's window."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_READINGS_US = (
    (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND + DAY_US,
    (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND - DAY_US,
)


class ZoneSlots(ClockSlots, frozen=True, kw_only=True):
    """Windows of `length_us`, one beginning every `every_us`, both in whole days by the clock of the zone.

    They are counted from `offset_us` after the clock there showed the beginning of 1970.
    """

    zone: str

    def assign(self, times_us: Ints) -> tuple[Ints, Ints, Ints]:
        newest = self._newest(times_us)
        positions, starts, ends = [], [], []
        for back in range(-(-self.length_us // self.every_us)):
            numbers, which = np.unique(newest - back, return_inverse=True)
            start = self._instants(numbers, 0)[which]
            end = self._instants(numbers, self.length_us)[which]
            inside = np.flatnonzero(end > times_us)
            positions.append(inside)
            starts.append(start[inside])
            ends.append(end[inside])
        return np.concatenate(positions), np.concatenate(starts), np.concatenate(ends)

    def _newest(self, times_us: Ints) -> Ints:
        """The number of the last window that began."""
        # No zone is a whole day away from UTC, and a window is a day at least: it is one of these.
        as_if_utc = np.unique((times_us - self.offset_us) // self.every_us)
        numbers = np.unique(np.concatenate([as_if_utc + near for near in (-1, 0, 1)]))
        began = self._instants(numbers, 0)
        newest: Ints = numbers[np.searchsorted(began, times_us, side="right") - 1]
        return newest

    def _instants(self, numbers: Ints, after_us: int) -> Ints:
        readings_us = numbers * self.every_us + (self.offset_us + after_us)
        return np.array([instant_us(self.zone, int(each)) for each in readings_us], dtype=np.int64)


@functools.lru_cache(maxsize=INSTANTS_KEPT_MAX)
def instant_us(zone: str, reading_us: int) -> int:
    """When the clock of the zone shows what is given as microseconds after it showed the beginning of 1970."""
    earliest_us, latest_us = _READINGS_US
    reading = _EPOCH + min(max(reading_us, earliest_us), latest_us) * _MICROSECOND
    ahead = reading.replace(tzinfo=ZoneInfo(zone)).utcoffset()
    assert ahead is not None
    return reading_us - ahead // _MICROSECOND


@functools.cache
def _known_zones() -> frozenset[str]:
    return frozenset(available_timezones())  # which are files: not to be looked up for every window


def require_zone(zone: str, slots: ClockSlots, *, operator: str) -> None:
    if zone not in _known_zones():
        near = get_close_matches(zone, _known_zones(), n=1)
        raise BadOperator(
            operator,
            "zone",
            f"is {zone!r}, which is no time zone",
            hint=f"did you mean {near[0]!r}?" if near else 'such as "Europe/Berlin"',
        )
    for field, amount_us in (("length", slots.length_us), ("every", slots.every_us)):
        if amount_us % DAY_US:
            raise BadOperator(
                operator,
                field,
                f"is no whole number of days, and only days and weeks depend on the zone {zone!r}",
                hint="leave zone= out: hours and minutes are the same everywhere, and offset= moves them",
            )


def with_zone_windows(rows: DataFrame, slots: ZoneSlots, time: str) -> DataFrame:
    """For Spark's own way: the rows, as often as they are in a window, with the window in a column of its own."""
    from pyspark.sql import functions as F

    at = F.col(f"`{time}`").cast("timestamp")
    newest_us = _spark_newest(slots, at)
    windows = F.array(
        *(
            F.struct(
                _spark_instant(slots, newest_us - back * slots.every_us).alias("start"),
                _spark_instant(slots, newest_us - back * slots.every_us + slots.length_us).alias("end"),
            )
            for back in range(-(-slots.length_us // slots.every_us))
        )
    )
    every_window = rows.select("*", F.explode(windows).alias(WINDOW)).filter(F.col(WINDOW)["end"] > at)
    # Spark knows by this that a group ends when the watermark passes the end of its window.
    delay = rows.schema[time].metadata.get(WATERMARK_DELAY)
    metadata = {} if delay is None else {WATERMARK_DELAY: delay}
    return every_window.withColumn(WINDOW, F.col(WINDOW).alias(WINDOW, metadata=metadata))


def zone_window() -> Column:
    from pyspark.sql import functions as F

    return F.col(WINDOW)


def _spark_newest(slots: ZoneSlots, at: Column) -> Column:
    """What the clock of the zone showed when the last window began."""
    from pyspark.sql import functions as F

    reading_us = F.unix_micros(F.from_utc_timestamp(at, slots.zone))
    near_us = reading_us - F.pmod(reading_us - slots.offset_us, F.lit(slots.every_us))
    # The clock may have been put back behind the reading, or forward over it.
    return (
        F.when(at < _spark_instant(slots, near_us), near_us - slots.every_us)
        .when(at >= _spark_instant(slots, near_us + slots.every_us), near_us + slots.every_us)
        .otherwise(near_us)
    )


def _spark_instant(slots: ZoneSlots, reading_us: Column) -> Column:
    from pyspark.sql import functions as F

    return F.to_utc_timestamp(F.timestamp_micros(reading_us), slots.zone)
