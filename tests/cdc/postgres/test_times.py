from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cdc.postgres.times import days, micros, micros_of_day, zoned_time, zoned_timestamp


@given(st.dates())
def test_days_are_those_since_1970(day: date) -> None:
    assert days(day.isoformat()) == (day - date(1970, 1, 1)).days


@given(st.datetimes())
def test_microseconds_are_those_since_1970(moment: datetime) -> None:
    since = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    text = moment.isoformat(" ").rstrip("0") if moment.microsecond else moment.isoformat(" ")
    assert micros(text) == (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def test_years_outside_of_pythons_calendar_continue_it() -> None:
    assert days("0001-12-31 BC") == days("0001-01-01") - 1
    assert days("0005-02-29 BC") == days("0005-03-01 BC") - 1
    assert days("10000-01-01") == days("9999-12-31") + 1
    assert days("4713-01-01 BC") == -2_440_550
    assert micros("0001-12-31 23:59:59.999999 BC") == micros("0001-01-01 00:00:00") - 1


def test_infinity_is_a_value_beyond_all_others() -> None:
    assert days("-infinity") < days("4713-01-01 BC")
    assert days("5874897-12-31") < days("infinity") < 2**31
    assert micros("-infinity") < micros("4713-01-01 00:00:00 BC")
    assert micros("290000-12-31 23:59:59.999999") < micros("infinity") < 2**63
    assert zoned_timestamp("infinity") == "infinity"
    assert zoned_timestamp("-infinity") == "-infinity"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("00:00:00", 0),
        ("00:00:01.5", 1_500_000),
        ("24:00:00", 86_400_000_000),
        ("12:34:56.000001", 45_296_000_001),
    ],
)
def test_time_of_day_is_in_microseconds(text: str, value: int) -> None:
    assert micros_of_day(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-11-17 03:50:39.66+00", "2026-11-17T03:50:39.66Z"),
        ("0044-03-15 12:00:00+00 BC", "-0043-03-15T12:00:00Z"),
        ("0001-03-15 12:00:00+00 BC", "0000-03-15T12:00:00Z"),
        ("10000-01-01 00:00:00+00", "+10000-01-01T00:00:00Z"),
    ],
)
def test_timestamp_with_zone_is_iso_8601_in_utc(text: str, value: str) -> None:
    assert zoned_timestamp(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10:15:30+00", "10:15:30Z"),
        ("10:15:30.25+01", "09:15:30.25Z"),
        ("23:00:00-05:30", "04:30:00Z"),
        ("00:00:00+15:59:59", "08:00:01Z"),
    ],
)
def test_time_with_zone_is_moved_to_utc(text: str, value: str) -> None:
    assert zoned_time(text) == value
