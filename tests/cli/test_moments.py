"""Times as people type them."""

from __future__ import annotations

import pytest

from headrace.cli.moments import BadMoment, parse_time_ms


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
