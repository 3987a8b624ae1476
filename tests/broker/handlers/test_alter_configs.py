"""AlterConfigs over the wire: what a request does not name is set back to its default."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
)
from headrace.testing.wire import Wire
from tests.broker.config_requests import TOPIC, described
from tests.broker.requests import new_name

DYNAMIC_TOPIC_CONFIG = 1


def replace_configs(
    wire: Wire, topic: str, version: int = 2, /, *, validate_only: bool = False, **configs: str
) -> int:
    resource = AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=topic,
        configs=tuple(
            AlterableConfig(name=name.replace("_", "."), value=text) for name, text in configs.items()
        ),
    )
    request = AlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    (response,) = wire.request(request, version=version).responses
    assert (response.resource_type, response.resource_name) == (TOPIC, topic)
    code: int = response.error_code
    return code


def own_configs(wire: Wire, topic: str) -> dict[str, str | None]:
    found = described(wire, TOPIC, topic)
    return {name: one.value for name, one in found.items() if one.config_source == DYNAMIC_TOPIC_CONFIG}


@pytest.mark.parametrize("version", range(3))
def test_request_replaces_all_configs_of_a_topic(wire: Wire, topic: str, version: int) -> None:
    assert replace_configs(wire, topic, version, retention_ms="1000", segment_bytes="2000000") == 0
    assert own_configs(wire, topic) == {"retention.ms": "1000", "segment.bytes": "2000000"}
    assert replace_configs(wire, topic, version, retention_ms="5000") == 0
    assert own_configs(wire, topic) == {"retention.ms": "5000"}


def test_validation_changes_nothing(wire: Wire, topic: str) -> None:
    assert replace_configs(wire, topic, validate_only=True, retention_ms="1000") == 0
    assert own_configs(wire, topic) == {}


def test_invalid_value_changes_nothing(wire: Wire, topic: str) -> None:
    assert replace_configs(wire, topic, retention_ms="1000") == 0
    rejected = replace_configs(wire, topic, retention_ms="5000", segment_bytes="many")
    assert rejected == ErrorCode.INVALID_CONFIG
    assert own_configs(wire, topic) == {"retention.ms": "1000"}


def test_unknown_topic_is_rejected(wire: Wire) -> None:
    assert replace_configs(wire, new_name(), retention_ms="1") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
