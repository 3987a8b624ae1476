"""Since when a target fails."""

from __future__ import annotations

from headrace.webhooks.outgoing.health import Health


def test_failures_count_by_the_time_since_the_first_one() -> None:
    health = Health().failed(1_000).failed(5_000).failed(9_000)
    assert health.failing_ms(9_000) == 8_000


def test_success_ends_the_failure() -> None:
    health = Health().failed(1_000).succeeded(2_000)
    assert health.failing_ms(9_000) == 0
    assert health.last_success_ms == 2_000
    assert health.failed(9_000).failing_ms(9_500) == 500


def test_after_a_pause_the_time_starts_again() -> None:
    health = Health().succeeded(500).failed(1_000).resumed()
    assert health == Health(last_success_ms=500)
