from __future__ import annotations

from headrace.edges.datagrams import DATAGRAM_BYTES_MAX
from headrace.edges.statsd.settings import StatsdSettings


def test_bounds_fit_together() -> None:
    settings = StatsdSettings(name="e", topic="t", flush_ms=1000)
    assert settings.letter_bytes_max <= settings.bounds.line_bytes_max <= DATAGRAM_BYTES_MAX
    assert settings.bounds.values_max <= settings.bounds.metrics_exact_max
