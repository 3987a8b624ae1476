"""Dates and times of MySQL: negative ones, long ones, and dates that are none."""

from __future__ import annotations

import pytest

from headrace.cdc.mysql import times


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00:00:00", 0),
        ("838:59:59.999999", 3020399999999),
        ("-838:59:59", -3020399000000),
        ("-00:00:00.5", -500000),
    ],
)
def test_time_may_be_negative_and_longer_than_a_day(text: str, expected: int) -> None:
    assert times.time_of_text(text) == expected


@pytest.mark.parametrize("text", ["0000-00-00", "2026-00-01", "2026-01-00", "2026-02-30"])
def test_date_that_is_none_is_none(text: str) -> None:
    assert times.days_of_text(text) is None
    assert times.micros_of_text(f"{text} 00:00:00") is None
    assert times.zoned_of_text(f"{text} 00:00:00") is None


def test_date_before_1970_is_negative() -> None:
    assert times.days_of_text("1969-12-31") == -1
    assert times.micros_of_text("1969-12-31 23:59:59.999999") == -1


def test_timestamp_has_only_the_digits_that_it_needs() -> None:
    assert times.zoned_of_text("2026-11-18 06:30:00") == "2026-11-18T06:30:00Z"
    assert times.zoned_of_text("2026-11-18 06:30:00.120000") == "2026-11-18T06:30:00.12Z"
    assert times.zoned(1) == "1970-01-01T00:00:00.000001Z"
