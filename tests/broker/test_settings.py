"""The settings of a broker: their defaults fit together."""

from __future__ import annotations

import pytest

from headrace.broker.configs.topic_configs import log_config
from headrace.broker.settings import BrokerSettings
from headrace.settings import BadSetting, make

DEFAULTS = BrokerSettings()


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ("health_disk_ms_max", "metrics_request_ms_max"),
        ("housekeeping_interval_ms", "health_failure_ms"),
        ("request_bytes_max", "connection_bytes_max"),
        ("connection_bytes_max", "inflight_bytes_max"),
        ("fetch_bytes_max", "connection_bytes_max"),
        ("group_session_timeout_ms_min", "group_session_timeout_ms_max"),
        ("group_member_bytes_max", "groups_bytes_max"),
        ("archive_interval_ms", "archive_retry_ms_max"),
    ],
)
def test_default_limits_leave_room_for_each_other(smaller: str, larger: str) -> None:
    assert getattr(DEFAULTS, smaller) < getattr(DEFAULTS, larger)


def test_largest_batch_fits_into_a_request_and_a_fetch() -> None:
    batch_bytes_max = log_config({}).batch_bytes_max
    assert batch_bytes_max < DEFAULTS.request_bytes_max
    assert batch_bytes_max < DEFAULTS.fetch_bytes_max
    assert batch_bytes_max < DEFAULTS.decompressed_batch_bytes_max


def test_broker_is_safe_unless_it_is_set_otherwise() -> None:
    assert (DEFAULTS.durability, DEFAULTS.host, DEFAULTS.insecure) == ("fsync", "127.0.0.1", False)


@pytest.mark.parametrize(("name", "value"), [("durability", "none"), ("connections_max", 0), ("port", -1)])
def test_value_that_is_not_allowed_is_rejected(name: str, value: object) -> None:
    with pytest.raises(BadSetting, match=name):
        make(BrokerSettings, {name: value})
