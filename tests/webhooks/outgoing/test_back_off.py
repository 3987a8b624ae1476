"""When the next attempt is: later each time, never later than the bounds, never before the receiver asks for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.webhooks.outgoing.back_off import BackOff, retry_after_ms

NOW_MS = 1_700_000_000_000
BACK_OFF = BackOff(first_ms=5_000, factor=4, delay_ms_max=3_600_000, retry_after_ms_max=14_400_000)


def test_each_pause_is_four_times_as_long_up_to_an_hour() -> None:
    delays = [BACK_OFF.delay_ms(number, None, 0.5) for number in range(1, 9)]
    assert delays == [5_000, 20_000, 80_000, 320_000, 1_280_000, 3_600_000, 3_600_000, 3_600_000]


def test_jitter_makes_a_pause_up_to_a_fifth_shorter_or_longer() -> None:
    assert BACK_OFF.delay_ms(1, None, 0.0) == 4_000
    assert BACK_OFF.delay_ms(1, None, 1.0) == 6_000


def test_receiver_can_ask_for_a_longer_pause_within_a_bound() -> None:
    assert BACK_OFF.delay_ms(1, 60_000, 0.5) == 60_000
    assert BACK_OFF.delay_ms(1, 10**12, 0.5) == 14_400_000
    assert BACK_OFF.delay_ms(6, 1_000, 0.5) == 3_600_000


@given(st.integers(1, 10**9), st.none() | st.integers(0, 10**15), st.floats(0, 1))
def test_pause_has_bounds_for_every_number_of_attempts(
    attempts: int, asked_ms: int | None, random: float
) -> None:
    delay_ms = BACK_OFF.delay_ms(attempts, asked_ms, random)
    assert 4_000 <= delay_ms <= 14_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("120", 120_000),
        (" 0 ", 0),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("٣", None),
        ("9" * 100, None),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60_000),
        ("Tue, 14 Nov 2023 22:13:00 GMT", 0),
        ("Tue, 99 Nov 2023 22:13:00 GMT", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(text: str | None, expected: int | None) -> None:
    assert retry_after_ms(text, NOW_MS) == expected


@given(st.text(max_size=70))
def test_any_retry_after_is_a_time_or_nothing(text: str) -> None:
    found = retry_after_ms(text, NOW_MS)
    assert found is None or found >= 0
