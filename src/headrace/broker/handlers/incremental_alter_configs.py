"""IncrementalAlterConfigs: set, delete, append to and subtract from single configs."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.config_changes import DEFINITIONS, alter
from headrace.broker.configs.definitions import CLIENT_METRICS, ConfigType
from headrace.broker.dispatch import Call, handles
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@handles(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), is_long=True)
async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=await alter(request, _changed, call))


def _changed(resource: AlterConfigsResource, current: Mapping[str, str]) -> dict[str, str]:
    """The configs after the changes."""
    configs = dict(current)
    for change in resource.configs:
        if change.config_operation == DELETE:
            configs.pop(change.name, None)
            continue
        config = DEFINITIONS[resource.resource_type](change.name)
        if change.value is None:
            raise RequestRejected(
                ErrorCode.INVALID_REQUEST,
                f"{change.name} has no value",
                hint="set a value, or delete the config",
            )
        if change.config_operation == SET:
            configs[change.name] = change.value
        elif (
            change.config_operation in (APPEND, SUBTRACT)
            and config.type is ConfigType.LIST
            and resource.resource_type != CLIENT_METRICS
        ):
            configs[change.name] = _changed_list(configs.get(change.name, config.default), change)
        else:
            raise RequestRejected(
                ErrorCode.INVALID_CONFIG, f"{change.name} is not a list", hint="set it, or delete it"
            )
    return configs


def _changed_list(current: str, change: AlterableConfig) -> str:
    items = [item for item in current.split(",") if item]
    named = (change.value or "").split(",")
    if change.config_operation == APPEND:
        return ",".join([*items, *(item for item in named if item not in items)])
    return ",".join(item for item in items if item not in named)
