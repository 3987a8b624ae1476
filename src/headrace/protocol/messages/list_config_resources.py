"""ListConfigResources: what has settings of its own: topics, brokers, groups, subscriptions to client metrics.

0: subscriptions to client metrics only.
1: of the types asked for, or of all.
"""

from __future__ import annotations

from typing import Annotated

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int8, Int16, Int32, String, message, since
from headrace.values import value


@message(ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), flexible_since=0)
class ListConfigResourcesRequest:
    resource_types: Annotated[tuple[Int8, ...], since(1)] = ()


@value
class ConfigResource:
    resource_name: String
    resource_type: Annotated[Int8, since(1)] = 16


@message(ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), flexible_since=0)
class ListConfigResourcesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: tuple[ConfigResource, ...] = ()
