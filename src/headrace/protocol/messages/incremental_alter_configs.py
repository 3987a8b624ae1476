"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings.

1: flexible.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int8, Int16, Int32, NullableString, String, message


class AlterableConfig(Struct, frozen=True, kw_only=True):
    name: String
    config_operation: Int8
    value: NullableString = None


class AlterConfigsResource(Struct, frozen=True, kw_only=True):
    resource_type: Int8
    resource_name: String
    configs: tuple[AlterableConfig, ...]


@message(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsRequest(Struct, frozen=True, kw_only=True):
    resources: tuple[AlterConfigsResource, ...]
    validate_only: Bool = False


class AlterConfigsResourceResponse(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: NullableString = None
    resource_type: Int8
    resource_name: String


@message(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...]
