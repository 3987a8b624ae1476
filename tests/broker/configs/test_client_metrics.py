"""Subscriptions to client metrics over the wire, as Apache Kafka keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.testing.wire import Wire
from tests.broker.config_requests import CLIENT_METRICS, alter, described
from tests.broker.conftest import Connect, StartBroker
from tests.broker.observing import eventually
from tests.broker.requests import new_name

CLIENT_METRICS_SOURCE, DEFAULT_SOURCE = 7, 5


def values(wire: Wire, name: str) -> dict[str, tuple[str | None, int]]:
    found = described(wire, CLIENT_METRICS, name)
    return {config.name: (config.value, config.config_source) for config in found.values()}


DEFAULTS = {
    "interval.ms": ("300000", DEFAULT_SOURCE),
    "match": ("", DEFAULT_SOURCE),
    "metrics": ("", DEFAULT_SOURCE),
}


def test_subscription_is_set_described_and_removed(any_wire: Wire) -> None:
    name = new_name("s")
    assert values(any_wire, name) == DEFAULTS
    match = "client_id=app.*,client_software_name=librdkafka"
    assert alter(any_wire, CLIENT_METRICS, name, interval_ms="1000", match=match) == 0
    expected = {
        **DEFAULTS,
        "interval.ms": ("1000", CLIENT_METRICS_SOURCE),
        "match": (match, CLIENT_METRICS_SOURCE),
    }
    eventually(lambda: values(any_wire, name) == expected, "Kafka applies the change")
    assert alter(any_wire, CLIENT_METRICS, name, interval_ms=None, match=None, metrics=None) == 0
    eventually(lambda: values(any_wire, name) == DEFAULTS, "Kafka applies the change")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"interval_ms": "99"}, ErrorCode.INVALID_REQUEST),
        ({"interval_ms": "3600001"}, ErrorCode.INVALID_REQUEST),
        ({"interval_ms": "often"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_name=a"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=["}, ErrorCode.INVALID_CONFIG),
        ({"colour": "red"}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_subscription_is_rejected(
    any_wire: Wire, changes: dict[str, str], expected: ErrorCode
) -> None:
    name = new_name("s")
    assert alter(any_wire, CLIENT_METRICS, name, **changes) == expected
    assert values(any_wire, name) == DEFAULTS


def test_subscription_without_a_name_is_rejected(any_wire: Wire) -> None:
    assert alter(any_wire, CLIENT_METRICS, "", metrics="*") == ErrorCode.INVALID_REQUEST


def test_subscription_survives_a_restart(start_broker: StartBroker, connect: Connect, tmp_path: Path) -> None:
    broker = start_broker(data_dir=tmp_path)
    assert alter(connect(broker), CLIENT_METRICS, "s", metrics="*") == 0
    broker.stop()
    again = connect(start_broker(data_dir=tmp_path))
    assert values(again, "s")["metrics"] == ("*", CLIENT_METRICS_SOURCE)


def test_subscriptions_are_bounded(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker(client_metrics_max=2))
    for name in ("a", "b"):
        assert alter(wire, CLIENT_METRICS, name, metrics="*") == 0
    assert alter(wire, CLIENT_METRICS, "c", metrics="*") == ErrorCode.POLICY_VIOLATION
    assert alter(wire, CLIENT_METRICS, "a", metrics="x") == 0
    assert alter(wire, CLIENT_METRICS, "b", metrics=None) == 0
    assert alter(wire, CLIENT_METRICS, "c", metrics="*") == 0
