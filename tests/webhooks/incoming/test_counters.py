"""Metrics of webhooks."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from headrace.webhooks.incoming.counters import NO_SOURCE, Counters, Outcome, WebhookCollector


def test_requests_are_counted_by_source_and_what_became_of_them() -> None:
    counters = Counters()
    for _ in range(2):
        counters.add("a", Outcome.ACCEPTED)
    counters.add("b", Outcome.DUPLICATE)
    counters.add_rejected("a", "mismatch")
    assert counters.count("a") == {"accepted": 2, "mismatch": 1}
    registry = CollectorRegistry()
    registry.register(WebhookCollector(counters))
    shown = generate_latest(registry).decode()
    assert 'headrace_webhook_in_requests_total{outcome="accepted",source="a"} 2.0' in shown
    assert 'headrace_webhook_in_requests_total{outcome="duplicate",source="b"} 1.0' in shown
    assert 'headrace_webhook_in_rejected_total{reason="mismatch",source="a"} 1.0' in shown


def test_name_of_a_caller_makes_no_metric() -> None:
    counters = Counters()
    for _ in range(100):
        counters.add_rejected(NO_SOURCE, "unknown name")
    assert counters.rows() == ([], [("", "unknown name", 100)])
