"""ListConfigResources: what has settings of its own: topics, brokers, groups, subscriptions to client metrics.

0: subscriptions to client metrics only.
1: of the requested types, or of all.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int8, Int16, Int32, String, message, since


@message(ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), flexible_since=0)
class ListConfigResourcesRequest(Struct, frozen=True, kw_only=True):
    resource_types: Annotated[tuple[Int8, ...], since(1)] = ()


class ConfigResource(Struct, frozen=True, kw_only=True):
    resource_name: String
    resource_type: Annotated[Int8, since(1)] = 16


@message(ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1), flexible_since=0)
class ListConfigResourcesResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: tuple[ConfigResource, ...] = ()
