"""AlterConfigs: the older API, which replaces all configs of a topic together."""

from __future__ import annotations

from headrace.broker.config_changes import Alteration, alter
from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@handles(ApiKey.ALTER_CONFIGS, versions=(0, 2), is_long=True)
async def alter_configs(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    wanted = [_alteration(resource) for resource in request.resources]
    outcomes = await alter(wanted, validate_only=request.validate_only, call=call)
    return AlterConfigsResponse(
        responses=tuple(
            AlterConfigsResourceResponse(
                error_code=outcome.code,
                error_message=outcome.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource, outcome in zip(request.resources, outcomes, strict=True)
        )
    )


def _alteration(resource: AlterConfigsResource) -> Alteration:
    configs = {config.name: config.value for config in resource.configs if config.value is not None}
    return Alteration(
        resource_type=resource.resource_type, name=resource.resource_name, change=lambda current: configs
    )
