"""IncrementalAlterConfigs over the wire: single configs of a topic are set, deleted, and lists changed by items."""

from __future__ import annotations

import pytest

from headrace.broker.handlers.incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.testing.wire import Wire

TOPIC_RESOURCE = 2


def _alter(wire: Wire, topic: str, name: str, operation: int, value: str | None) -> int:
    change = AlterableConfig(name=name, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=(change,))
    (result,) = wire.request(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    return int(result.error_code)


def _config(wire: Wire, topic: str, name: str) -> str | None:
    resource = DescribeConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=(name,)
    )
    (result,) = wire.request(DescribeConfigsRequest(resources=(resource,))).results
    (config,) = result.configs
    value: str | None = config.value
    return value


def test_items_are_appended_to_a_list_and_removed_from_it(wire: Wire, topic: str) -> None:
    assert _alter(wire, topic, "cleanup.policy", APPEND, "compact") == 0
    assert _config(wire, topic, "cleanup.policy") == "delete,compact"
    assert _alter(wire, topic, "cleanup.policy", SUBTRACT, "delete") == 0
    assert _config(wire, topic, "cleanup.policy") == "compact"


def test_topic_may_have_no_cleanup_policy_at_all(wire: Wire, topic: str) -> None:
    assert _alter(wire, topic, "cleanup.policy", SUBTRACT, "delete") == 0
    assert _config(wire, topic, "cleanup.policy") == ""


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_config_that_is_no_list_has_no_items(wire: Wire, topic: str, operation: int) -> None:
    assert _alter(wire, topic, "retention.ms", operation, "1") == ErrorCode.INVALID_CONFIG


def test_deleted_config_has_its_default_again(wire: Wire, topic: str) -> None:
    default = _config(wire, topic, "retention.ms")
    assert _alter(wire, topic, "retention.ms", SET, "1234") == 0
    assert _config(wire, topic, "retention.ms") == "1234"
    assert _alter(wire, topic, "retention.ms", DELETE, None) == 0
    assert _config(wire, topic, "retention.ms") == default
