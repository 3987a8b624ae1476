"""Days of a time zone: beside an oracle with a calendar, and on Spark, whose zones are Java's."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.operators.windows.zones import DAY_US, ZoneSlots
from tests.operators.streams import EPOCH_S, EventRow, Stream, bounded
from tests.operators.windows.pane_oracle import Oracle, Row, Rules
from tests.operators.windows.stepping import Windows

ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "America/Havana",  # put back at one o'clock: midnight occurs twice
    "America/Sao_Paulo",  # put forward at midnight, until 2019: midnight is skipped
    "Australia/Lord_Howe",  # by half an hour
    "Asia/Kathmandu",
    "Pacific/Apia",  # had no 30th of December in 2011
    "UTC",
]
SHAPES = [(1, 1), (7, 1), (3, 2), (7, 7), (1, 7)]
HOUR_US = 3_600_000_000
MOMENTS = [
    datetime(2026, 3, 29, 1, tzinfo=UTC),
    datetime(2026, 10, 25, 1, tzinfo=UTC),
    datetime(2026, 11, 1, 5, tzinfo=UTC),
    datetime(2018, 11, 4, 3, tzinfo=UTC),
    datetime(2011, 12, 30, 10, tzinfo=UTC),
    datetime(2026, 4, 4, 15, tzinfo=UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1850, 1, 1, tzinfo=UTC),
    datetime(2100, 1, 1, tzinfo=UTC),
]
"""When clocks were put forward or back in one zone or another, and some far away."""

times = st.builds(
    lambda moment, us: us_of(moment) + us, st.sampled_from(MOMENTS), st.integers(-50 * HOUR_US, 50 * HOUR_US)
)


@functools.cache
def changes_of(zone: str) -> list[datetime]:
    """The instants, to the minute, at which the zone's distance from UTC changed."""
    place, found = ZoneInfo(zone), []
    before = datetime(1840, 1, 1, tzinfo=UTC)
    while before < datetime(2040, 1, 1, tzinfo=UTC):
        after = before + timedelta(days=20)
        if before.astimezone(place).utcoffset() != after.astimezone(place).utcoffset():
            low, high = before, after
            while high - low > timedelta(minutes=1):
                middle = low + (high - low) / 2
                is_low = middle.astimezone(place).utcoffset() == before.astimezone(place).utcoffset()
                low, high = (middle, high) if is_low else (low, middle)
            found.append(high)
        before = after
    return found


SKIPPED_OR_REPEATED_DAYS = [
    "America/Juneau",  # had one day twice in 1867, as all of Alaska
    "Pacific/Rarotonga",
    "Asia/Manila",
    "Pacific/Apia",
    "Pacific/Fakaofo",
    "Pacific/Guam",
    "Pacific/Kiritimati",
    "Pacific/Kwajalein",
]


@st.composite
def zones_and_times(draw: st.DrawFn) -> tuple[str, list[int]]:
    """Any zone, with times around the changes of its clocks."""
    zone = draw(st.sampled_from(SKIPPED_OR_REPEATED_DAYS) | st.sampled_from(sorted(available_timezones())))
    moments = st.sampled_from(changes_of(zone) or MOMENTS)
    hours = st.integers(-80, 80) | st.floats(-80, 80)
    near = st.builds(lambda moment, away: us_of(moment) + int(away * HOUR_US), moments, hours)
    return zone, draw(st.lists(near, min_size=1, max_size=12))


def us_of(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def calendar(zone: str, length: int, every: int, offset_us: int) -> Callable[[int], list[tuple[int, int]]]:
    """Every window around a time, one by one: from a local time on one date to another."""
    clock = (datetime(1970, 1, 1, tzinfo=UTC) + offset_us % DAY_US * timedelta(microseconds=1)).time()
    first = date(1970, 1, 1) + timedelta(days=offset_us // DAY_US)

    def instant(day: date) -> int:
        return us_of(datetime.combine(day, clock, tzinfo=ZoneInfo(zone)).astimezone(UTC))

    def assign(time_us: int) -> list[tuple[int, int]]:
        found = []
        near = (time_us // DAY_US - (first - date(1970, 1, 1)).days) // every
        for number in range(near - length // every - 3, near + 4):
            day = first + timedelta(days=number * every)
            start, end = instant(day), instant(day + timedelta(days=length))
            if start <= time_us < end:
                found.append((start, end))
        return found

    return assign


@settings(max_examples=200)
@given(
    st.lists(times, min_size=1, max_size=20),
    st.sampled_from(ZONES),
    st.sampled_from(SHAPES),
    st.sampled_from([0, 6 * HOUR_US, 2 * HOUR_US + 1_800_000_000]),
)
def test_a_row_is_in_the_windows_of_the_calendar(
    times: list[int], zone: str, shape: tuple[int, int], offset_us: int
) -> None:
    length, every = shape
    slots = ZoneSlots(zone=zone, length_us=length * DAY_US, every_us=every * DAY_US, offset_us=offset_us)
    assign = calendar(zone, length, every, offset_us)
    positions, starts, ends = slots.assign(np.array(times, dtype=np.int64))
    found = Counter(zip(positions.tolist(), starts.tolist(), ends.tolist(), strict=True))
    assert found == Counter(
        (position, *window) for position, time_us in enumerate(times) for window in assign(time_us)
    )


@settings(max_examples=100)
@given(zones_and_times(), st.sampled_from([*SHAPES, (2, 1)]), st.sampled_from([0, 6 * HOUR_US]))
def test_rows_around_a_change_of_any_zone_are_in_the_windows_of_the_calendar(
    rows: tuple[str, list[int]], shape: tuple[int, int], offset_us: int
) -> None:
    zone, times_us = rows
    length, every = shape
    slots = ZoneSlots(zone=zone, length_us=length * DAY_US, every_us=every * DAY_US, offset_us=offset_us)
    oracle = Oracle(Rules(), assign=calendar(zone, length, every, offset_us))
    windows = Windows(Rules(), slots=slots)
    batch: list[Row] = [("a", time_us, 1) for time_us in times_us]
    for step in [(batch, -math.inf, 1), ([], float(2**62), 2)]:
        assert Counter(windows.work(*step)) == Counter(oracle.step(*step))


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), times, st.integers(0, 3)), max_size=8),
    st.lists(st.tuples(st.sampled_from("ab"), times, st.integers(0, 3)), max_size=8),
    st.sampled_from(ZONES),
)
def test_days_of_a_zone_have_panes_like_other_windows(first: list[Row], second: list[Row], zone: str) -> None:
    rules = Rules(within=2 * DAY_US, early_rows=1)
    oracle = Oracle(rules, assign=calendar(zone, 1, 1, 0))
    windows = Windows(rules, slots=ZoneSlots(zone=zone, length_us=DAY_US, every_us=DAY_US))
    middle = us_of(MOMENTS[0])
    for batch in [(first, -math.inf, 1), (second, float(middle), 2), ([], float(2**62), 3)]:
        assert Counter(windows.work(*batch)) == Counter(oracle.step(*batch))
        windows.restart()


@pytest.mark.parametrize(
    ("day", "hours"), [(date(2026, 3, 29), 23), (date(2026, 7, 1), 24), (date(2026, 10, 25), 25)]
)
def test_a_day_in_berlin_has_the_hours_of_its_calendar(day: date, hours: int) -> None:
    slots = ZoneSlots(zone="Europe/Berlin", length_us=DAY_US, every_us=DAY_US)
    noon = us_of(datetime.combine(day, time(12), tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC))
    _, [start], [end] = slots.assign(np.array([noon]))
    assert (end - start) // HOUR_US == hours


def test_each_pass_of_a_repeated_hour_is_in_the_window_of_its_instant() -> None:
    """Days from half past two on: half past two occurs twice, and the day starts with the first."""
    half_past_two_us = 2 * HOUR_US + HOUR_US // 2
    slots = ZoneSlots(zone="Europe/Berlin", length_us=DAY_US, every_us=DAY_US, offset_us=half_past_two_us)
    first = us_of(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))  # 02:30 in summer time
    _, starts, _ = slots.assign(np.array([first - 1, first, first + HOUR_US // 2, first + HOUR_US]))
    assert (starts == first).tolist() == [False, True, True, True]


def seconds(year: int, month: int, day: int, hour: int, minute: int = 0) -> float:
    return datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp() - EPOCH_S


ROWS: list[EventRow] = [
    ("ann", seconds(2026, 3, 28, 22, 59), 1),  # the last minute of the 28th in Berlin
    ("ann", seconds(2026, 3, 28, 23), 2),
    ("ann", seconds(2026, 3, 29, 21, 59), 3),  # the last minute of a day of 23 hours
    ("ann", seconds(2026, 3, 29, 22), 4),
    ("bob", seconds(2026, 10, 25, 0, 30), 5),
    ("bob", seconds(2026, 10, 25, 1, 30), 6),  # the same local time, an hour later
    ("bob", seconds(2026, 10, 25, 22, 59), 7),
    ("bob", seconds(2011, 12, 30, 9, 59), 8),
    ("bob", seconds(2011, 12, 30, 10), 9),
    ("bob", seconds(2011, 12, 31, 10), 9),
    ("cat", seconds(1970, 1, 1, 0), 10),
    ("cat", seconds(2100, 6, 1, 0), 11),
]
AGGREGATE = {"n": "count(*)", "total": "sum(ms)", "opened": "first(ms)"}
WINDOWS: list[Any] = [
    op.Tumbling("1 day", zone="Europe/Berlin", by="user", aggregate=AGGREGATE, time="at"),
    op.Tumbling("1 day", zone="Pacific/Apia", aggregate=AGGREGATE, time="at"),
    op.Tumbling(
        "1 day", zone="Europe/Berlin", offset="2 hours 30 minutes", by="user", aggregate=AGGREGATE, time="at"
    ),
    op.Hopping("2 days", every="1 day", zone="Pacific/Apia", aggregate=AGGREGATE, time="at"),
    op.Hopping("1 week", every="2 days", zone="America/New_York", aggregate=AGGREGATE, time="at"),
    op.Sampling(
        "1 day", every="1 week", offset="2 days", zone="Europe/Berlin", aggregate=AGGREGATE, time="at"
    ),
]


@pytest.mark.parametrize("window", WINDOWS, ids=lambda each: f"{type(each).__name__.lower()}-{each.zone}")
def test_native_windows_and_the_core_have_the_same_days(spark: SparkSession, window: Any) -> None:
    rows = bounded(spark, ROWS)
    native, core = window(rows), replace(window, trigger=op.Trigger())(rows)
    assert native.schema.simpleString() == core.schema.simpleString()
    found = Counter(native.collect())
    assert found == Counter(core.collect())
    assert found


def test_days_of_a_zone_end_on_a_stream_without_the_core(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, WINDOWS[0])
    emitted = stream.send(ROWS[:4])
    assert [(row["n"], row["total"]) for row in emitted] == [(1, 1), (2, 5)]
    emitted += stream.send(ROWS[4:7])
    assert [(row["user"], row["n"]) for row in emitted[2:]] == [("ann", 1)]
    lengths = [(row["window_end"] - row["window_start"]) / timedelta(hours=1) for row in emitted]
    assert sorted(lengths) == [23, 24, 24]
