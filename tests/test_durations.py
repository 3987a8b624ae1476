"""Durations as people write them."""

from __future__ import annotations

import pytest

from headrace.durations import BadDuration, iso_duration_us, parse_duration_ms, parse_duration_us


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("500ms", 500),
        ("90s", 90_000),
        ("15m", 900_000),
        ("1h30m", 5_400_000),
        ("2d", 172_800_000),
        ("1w", 604_800_000),
        ("PT1H", 3_600_000),
        ("pt1h", 3_600_000),
        ("P1DT2H3M4S", 93_784_000),
        ("P1W", 604_800_000),
        ("PT0.25S", 250),
        ("1 h", 3_600_000),
        ("30 seconds", 30_000),
        ("1 Hour, 30 minutes", 5_400_000),
    ],
)
def test_duration_is_read(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    "text", ["", "1", "h", "-1h", "-1 hour", "PT", "P", "1h!", "1x", "1.5h", "PT1", "P1DT", "1M", "1 month"]
)
def test_bad_duration_is_rejected(text: str) -> None:
    with pytest.raises(BadDuration, match="not a duration"):
        parse_duration_ms(text)


def test_microseconds_and_signs_are_kept() -> None:
    assert parse_duration_us("3 microseconds") == 3
    assert parse_duration_us("-1 minute") == -60_000_000


def test_unit_of_varying_length_is_rejected_with_the_remedy() -> None:
    with pytest.raises(BadDuration, match=r"months differ in length.*days or weeks"):
        parse_duration_us("2 months")


@pytest.mark.parametrize("text", ["1h", "10 seconds", "P", ""])
def test_only_iso_8601_is_an_iso_duration(text: str) -> None:
    assert iso_duration_us(text) is None
    assert iso_duration_us("P1DT2H3M4.000005S") == 93_784_000_005
