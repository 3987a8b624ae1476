from __future__ import annotations

from headrace.edges.times import time_text


def test_time_is_iso_8601_with_milliseconds() -> None:
    assert time_text(1_700_000_000_005) == "2023-11-14T22:13:20.005Z"
