"""Times and durations as people type them."""

from __future__ import annotations

import pytest

from headrace.cli.moments import BadMoment, parse_duration_ms, parse_time_ms


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
    ],
)
def test_duration_is_read(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "1", "h", "1 h", "-1h", "PT", "P", "1h!", "1x", "1.5h"])
def test_bad_duration_is_refused(text: str) -> None:
    with pytest.raises(BadMoment, match="not a duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123+00:00", 1_700_000_000_123),
        ("2023-11-14 23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_time_is_read(text: str, expected_ms: int) -> None:
    assert parse_time_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "now", "14.11.2023", "2023-13-01", "0001-01-01T00:00:00"])
def test_bad_time_is_refused(text: str) -> None:
    with pytest.raises(BadMoment, match="not a time"):
        parse_time_ms(text)
