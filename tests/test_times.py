"""Points in time, as people write them."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.times import parse_time_ms

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123+00:00", 1_700_000_000_123),
        ("2023-11-14 23:13:20+01:00", 1_700_000_000_000),
        ("1h", NOW_MS - 3_600_000),
        ("PT1M", NOW_MS - 60_000),
    ],
)
def test_time_is_a_number_or_iso_8601_or_a_duration_before_now(text: str, expected_ms: int) -> None:
    assert parse_time_ms(text, NOW_MS) == expected_ms


@pytest.mark.parametrize(
    "text", ["", "now", "14.11.2023", "2023-13-01", "0001-01-01T00:00:00", "2 fortnights"]
)
def test_bad_time_is_rejected(text: str) -> None:
    with pytest.raises(HeadraceError, match="not a time"):
        parse_time_ms(text, NOW_MS)
