"""ListConfigResources: which topics, brokers, groups and subscriptions have configs that DescribeConfigs shows.

0: only subscriptions to client metrics. 1: resources of the requested types, or of all types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.broker.configs.definitions import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from headrace.broker.dispatch import Call, handles
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TYPES_SINCE = 1

_NAMES: dict[int, Callable[[Call], Iterable[str]]] = {
    TOPIC: lambda call: (topic.name for topic in call.parts.topics),
    BROKER: lambda call: [str(call.parts.settings.node_id)],
    BROKER_LOGGER: lambda call: [],
    CLIENT_METRICS: lambda call: call.parts.client_metrics.names(),
    # A group with its own configs is listed even if it does not exist.
    GROUP: lambda call: call.parts.group_configs.names(),
}


@handles(ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1))
def list_config_resources(request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
    types = (request.resource_types or tuple(_NAMES)) if call.version >= TYPES_SINCE else (CLIENT_METRICS,)
    if not _NAMES.keys() >= {*types}:
        raise RequestRejected(ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in dict.fromkeys(types)
            for name in _NAMES[kind](call)
        )
    )
