"""AlterConfigs: replace all settings of a topic, broker or group; those not named are reset to their defaults.

2: flexible.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int8, Int16, Int32, NullableString, String, message


class AlterableConfig(Struct, frozen=True, kw_only=True):
    name: String
    value: NullableString = None


class AlterConfigsResource(Struct, frozen=True, kw_only=True):
    resource_type: Int8
    resource_name: String
    configs: tuple[AlterableConfig, ...]


@message(ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible_since=2)
class AlterConfigsRequest(Struct, frozen=True, kw_only=True):
    resources: tuple[AlterConfigsResource, ...]
    validate_only: Bool = False


class AlterConfigsResourceResponse(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: NullableString = None
    resource_type: Int8
    resource_name: String


@message(ApiKey.ALTER_CONFIGS, versions=(0, 2), flexible_since=2)
class AlterConfigsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...]
