"""AlterConfigs: the older call, which replaces all configs of a topic at once."""

from __future__ import annotations

from headrace.broker.config_changes import alter_resource
from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@handles(ApiKey.ALTER_CONFIGS, versions=(0, 2))
def alter_configs(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=tuple(_alter(resource, request.validate_only, call) for resource in request.resources)
    )


def _alter(resource: AlterConfigsResource, validate_only: bool, call: Call) -> AlterConfigsResourceResponse:
    configs = {config.name: config.value for config in resource.configs if config.value is not None}
    code, message = alter_resource(
        resource.resource_type,
        resource.resource_name,
        lambda current: configs,
        validate_only=validate_only,
        call=call,
    )
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
