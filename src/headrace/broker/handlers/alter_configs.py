"""AlterConfigs: the older API, which replaces all configs of a resource together."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.config_changes import alter
from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)


@handles(ApiKey.ALTER_CONFIGS, versions=(0, 2), is_long=True)
async def alter_configs(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=await alter(request, _replaced, call))


def _replaced(resource: AlterConfigsResource, current: Mapping[str, str]) -> dict[str, str]:
    return {config.name: config.value for config in resource.configs if config.value is not None}
