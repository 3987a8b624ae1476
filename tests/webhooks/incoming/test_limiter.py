"""A rate for each source."""

from __future__ import annotations

from headrace.webhooks.incoming.limiter import Limiter


def test_burst_is_taken_at_once_and_then_the_rate() -> None:
    limiter = Limiter(per_s=8, burst=5, now_s=100.0)
    assert [limiter.take(100.0) for _ in range(6)] == [True] * 5 + [False]
    assert [limiter.take(100.125) for _ in range(2)] == [True, False]


def test_pause_gives_no_more_than_a_burst() -> None:
    limiter = Limiter(per_s=10, burst=5, now_s=0.0)
    assert sum(limiter.take(1_000.0) for _ in range(50)) == 5


def test_request_that_is_over_the_rate_costs_nothing() -> None:
    limiter = Limiter(per_s=1, burst=1, now_s=0.0)
    taken = [limiter.take(step / 8) for step in range(31)]
    assert sum(taken) == 4
