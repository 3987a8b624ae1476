"""The clock of the system: wall-clock time in milliseconds, monotonic time in seconds."""

from __future__ import annotations

import time

from headrace.clock import Clock, SystemClock


def test_system_clock_has_the_time_of_the_system_in_its_units() -> None:
    clock: Clock = SystemClock()
    before_ms, before_s = int(time.time() * 1000), time.monotonic()
    now_ms, now_s = clock.now_ms(), clock.monotonic_s()
    assert before_ms - 1 <= now_ms <= int(time.time() * 1000) + 1
    assert before_s <= now_s <= time.monotonic()
