"""Windows of days in a time zone: days of 23, 24 or 25 hours, and sometimes of another length.

A window of whole days starts at a local time of the zone. If that local time occurs twice, the first one counts. If it
is skipped, the window starts later by as much as the clock moved forward; if the whole day is skipped, two windows
start at the same instant, and end on different days. Instants, not local times, determine the window of a row: each
pass of a repeated hour is in the window that contains its instant. Python and Java have the same rules, so the native
window and the core agree.
"""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, available_timezones

import numpy as np

from headrace.operators.operator import BadOperator, require_text
from headrace.operators.state.ids import Ints
from headrace.operators.windows.lifting import ClockSlots
from headrace.plan_names import WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DAY_US = 86_400_000_000

INSTANTS_KEPT_MAX = 100_000
"""The number of window starts that a worker caches: 270 years of days, 8 MB."""

WINDOW = "__zone_window"
"""The column with the window of a row, for the native window."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_READINGS_US = (
    (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND + DAY_US,
    (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND - DAY_US,
)


class ZoneSlots(ClockSlots, frozen=True, kw_only=True):
    """Windows of `length_us` that start every `every_us`, both in whole days of local time in the zone.

    The first window starts `offset_us` after the start of 1970 in local time.
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

    def identities(self, starts_us: Ints, ends_us: Ints) -> Ints:
        """If a whole local day is skipped, the window of that day and the next one start at the same instant: the first
        of them, which ends earlier, gets a number that is the start of no window."""
        unique_us, which = np.unique(starts_us, return_inverse=True)
        last_ends_us = self._instants(self._newest(unique_us), self.length_us)[which]
        return starts_us + (ends_us < last_ends_us)

    def _newest(self, times_us: Ints) -> Ints:
        """The number of the last window that started at or before each time."""
        # No zone differs from UTC by a whole day, and a window is at least a day: it is one of these.
        as_if_utc = np.unique((times_us - self.offset_us) // self.every_us)
        numbers = np.unique(np.concatenate([as_if_utc + near for near in (-1, 0, 1)]))
        starts_us = self._instants(numbers, 0)
        newest: Ints = numbers[np.searchsorted(starts_us, times_us, side="right") - 1]
        return newest

    def _instants(self, numbers: Ints, after_us: int) -> Ints:
        readings_us = numbers * self.every_us + (self.offset_us + after_us)
        return np.array([instant_us(self.zone, int(each)) for each in readings_us], dtype=np.int64)


@functools.lru_cache(maxsize=INSTANTS_KEPT_MAX)
def instant_us(zone: str, reading_us: int) -> int:
    """The instant of a local time in the zone, which is given as microseconds since the start of 1970 in local time."""
    earliest_us, latest_us = _READINGS_US
    reading = _EPOCH + min(max(reading_us, earliest_us), latest_us) * _MICROSECOND
    ahead = reading.replace(tzinfo=ZoneInfo(zone)).utcoffset()
    assert ahead is not None
    return reading_us - ahead // _MICROSECOND


@functools.cache
def _known_zones() -> frozenset[str]:
    return frozenset(available_timezones())  # reads files, so not once per window


def require_zone(zone: str, *, operator: str) -> None:
    require_text(zone, operator=operator, field="zone", hint='set a name such as "Europe/Berlin"')
    if zone not in _known_zones():
        near = get_close_matches(zone, _known_zones(), n=1)
        raise BadOperator(
            operator,
            "zone",
            f"is {zone!r}, which is not a known time zone",
            hint=f"did you mean {near[0]!r}?" if near else 'set a name such as "Europe/Berlin"',
        )


def require_days(zone: str, slots: ClockSlots, *, operator: str) -> None:
    for field, amount_us in (("length", slots.length_us), ("every", slots.every_us)):
        if amount_us % DAY_US:
            raise BadOperator(
                operator,
                field,
                f"is not a whole number of days, and only days and weeks depend on the zone {zone!r}",
                hint="remove zone=: hours and minutes are the same in all zones, and offset= shifts them",
            )


def with_zone_windows(rows: DataFrame, slots: ZoneSlots, time: str) -> DataFrame:
    """The rows for the native window: one row per window of a row, with the window in column `WINDOW`."""
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
    # With this metadata, Spark finalizes a group when the watermark passes the end of its window.
    delay = rows.schema[time].metadata.get(WATERMARK_DELAY)
    metadata = {} if delay is None else {WATERMARK_DELAY: delay}
    return every_window.withColumn(WINDOW, F.col(WINDOW).alias(WINDOW, metadata=metadata))


def zone_window() -> Column:
    from pyspark.sql import functions as F

    return F.col(WINDOW)


def _spark_newest(slots: ZoneSlots, at: Column) -> Column:
    """The local time at which the last window started."""
    from pyspark.sql import functions as F

    reading_us = F.unix_micros(F.from_utc_timestamp(at, slots.zone))
    near_us = reading_us - F.pmod(reading_us - slots.offset_us, F.lit(slots.every_us))
    # The clock may have moved back before this local time, or forward past it.
    return (
        F.when(at < _spark_instant(slots, near_us), near_us - slots.every_us)
        .when(at >= _spark_instant(slots, near_us + slots.every_us), near_us + slots.every_us)
        .otherwise(near_us)
    )


def _spark_instant(slots: ZoneSlots, reading_us: Column) -> Column:
    from pyspark.sql import functions as F

    return F.to_utc_timestamp(F.timestamp_micros(reading_us), slots.zone)
