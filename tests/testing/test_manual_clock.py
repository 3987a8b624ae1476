"""A clock that only the test moves."""

from __future__ import annotations

import pytest

from headrace.testing import ManualClock


def test_both_kinds_of_time_advance_together_and_only_by_the_test() -> None:
    clock = ManualClock(now_ms=1_000)
    assert (clock.now_ms(), clock.monotonic_s()) == (1_000, 0.0)
    clock.advance_ms(250)
    assert (clock.now_ms(), clock.monotonic_s()) == (1_250, 0.25)


def test_time_never_goes_back() -> None:
    with pytest.raises(AssertionError, match="can't go back"):
        ManualClock().advance_ms(-1)
