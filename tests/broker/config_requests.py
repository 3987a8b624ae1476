"""Requests that alter and describe configs, as short as a test wants to say them."""

from __future__ import annotations

from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.testing.wire import Wire

TOPIC, BROKER, CLIENT_METRICS = 2, 4, 16
SET, DELETE = 0, 1


def alter(wire: Wire, kind: int, name: str, **changes: str | None) -> int:
    """Set configs (`retention_ms="1"` sets retention.ms), or with None delete them; the error code."""
    configs = tuple(
        AlterableConfig(
            name=config.replace("_", "."), config_operation=DELETE if text is None else SET, value=text
        )
        for config, text in changes.items()
    )
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (response,) = wire.request(IncrementalAlterConfigsRequest(resources=(resource,))).responses
    code: int = response.error_code
    return code


def described(wire: Wire, kind: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
    """The configs of a resource, with their synonyms."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    (result,) = wire.request(DescribeConfigsRequest(resources=(resource,), include_synonyms=True)).results
    assert result.error_code == 0, result
    return {config.name: config for config in result.configs}
