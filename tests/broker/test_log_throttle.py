"""A message that repeats is logged once per interval, with how often it was suppressed."""

from __future__ import annotations

from headrace.broker.log_throttle import INTERVAL_S, MESSAGES_MAX, LogThrottle


def test_message_is_logged_again_after_the_interval_with_its_count() -> None:
    throttle = LogThrottle()
    assert throttle.suppressed(100.0, "clicks-0", "full disk") == 0
    assert throttle.suppressed(100.1, "clicks-0", "full disk") is None
    assert throttle.suppressed(100.2, "clicks-0", "full disk") is None
    assert throttle.suppressed(100.0 + INTERVAL_S, "clicks-0", "full disk") == 2
    assert throttle.suppressed(100.1 + INTERVAL_S, "clicks-0", "full disk") is None


def test_different_messages_are_logged_immediately() -> None:
    throttle = LogThrottle()
    assert throttle.suppressed(0.0, "clicks-0", "full disk") == 0
    assert throttle.suppressed(0.0, "clicks-1", "full disk") == 0


def test_number_of_kept_messages_is_bounded() -> None:
    throttle = LogThrottle()
    for number in range(3 * MESSAGES_MAX):
        assert throttle.suppressed(0.0, number) == 0
    assert len(throttle._logged) <= MESSAGES_MAX
