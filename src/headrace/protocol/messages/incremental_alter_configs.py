"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings.

1: flexible.
"""

from __future__ import annotations

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int8, Int16, Int32, NullableString, String, message
from headrace.values import value


@value
class AlterableConfig:
    name: String
    config_operation: Int8
    value: NullableString = None


@value
class AlterConfigsResource:
    resource_type: Int8
    resource_name: String
    configs: tuple[AlterableConfig, ...]


@message(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsRequest:
    resources: tuple[AlterConfigsResource, ...]
    validate_only: Bool = False


@value
class AlterConfigsResourceResponse:
    error_code: Int16 = 0
    error_message: NullableString = None
    resource_type: Int8
    resource_name: String


@message(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: Int32 = 0
    responses: tuple[AlterConfigsResourceResponse, ...]
