"""A message that repeats is said once in a while, with how often it was kept back."""

from __future__ import annotations

from headrace.broker.log_throttle import REMEMBERED_MAX, SILENCE_S, LogThrottle


def test_the_same_thing_is_said_again_only_after_a_while_and_with_its_count() -> None:
    throttle = LogThrottle()
    assert throttle.suppressed(100.0, "clicks-0", "full disk") == 0
    assert throttle.suppressed(100.1, "clicks-0", "full disk") is None
    assert throttle.suppressed(100.2, "clicks-0", "full disk") is None
    assert throttle.suppressed(100.0 + SILENCE_S, "clicks-0", "full disk") == 2
    assert throttle.suppressed(100.1 + SILENCE_S, "clicks-0", "full disk") is None


def test_different_things_are_said_at_once() -> None:
    throttle = LogThrottle()
    assert throttle.suppressed(0.0, "clicks-0", "full disk") == 0
    assert throttle.suppressed(0.0, "clicks-1", "full disk") == 0


def test_what_is_remembered_is_bounded() -> None:
    throttle = LogThrottle()
    for number in range(3 * REMEMBERED_MAX):
        assert throttle.suppressed(0.0, number) == 0
    assert len(throttle._said) <= REMEMBERED_MAX
