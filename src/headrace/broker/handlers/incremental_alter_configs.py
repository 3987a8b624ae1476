"""IncrementalAlterConfigs: set, delete, append to and subtract from single configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from headrace.broker.config_changes import DEFINITIONS, Alteration, alter
from headrace.broker.configs.resource_configs import RefusedConfig
from headrace.broker.configs.resource_types import CLIENT_METRICS
from headrace.broker.configs.topic_configs import ConfigType, InvalidConfig
from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), is_long=True)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    wanted = [
        Alteration(
            resource_type=resource.resource_type,
            name=resource.resource_name,
            change=partial(changed, changes=resource.configs, resource_type=resource.resource_type),
        )
        for resource in request.resources
    ]
    outcomes = await alter(wanted, validate_only=request.validate_only, call=call)
    return IncrementalAlterConfigsResponse(
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


def changed(
    current: Mapping[str, str], changes: Sequence[AlterableConfig], resource_type: int
) -> dict[str, str]:
    """The configs after the changes."""
    configs = dict(current)
    for change in changes:
        if change.config_operation == DELETE:
            configs.pop(change.name, None)
            continue
        config = DEFINITIONS[resource_type](change.name)
        if change.value is None:
            raise RefusedConfig(f"{change.name} has no value", hint="set a value, or delete the config")
        if change.config_operation == SET:
            configs[change.name] = change.value
        elif (
            change.config_operation in (APPEND, SUBTRACT)
            and config.type is ConfigType.LIST
            and resource_type != CLIENT_METRICS
        ):
            configs[change.name] = _changed_list(configs.get(change.name, config.default), change)
        else:
            raise InvalidConfig(f"{change.name} is not a list", hint="set it, or delete it")
    return configs


def _changed_list(current: str, change: AlterableConfig) -> str:
    items = [item for item in current.split(",") if item]
    named = (change.value or "").split(",")
    if change.config_operation == APPEND:
        return ",".join([*items, *(item for item in named if item not in items)])
    return ",".join(item for item in items if item not in named)
