"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings.

1: flexible.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.alter_configs import AlterConfigsResponse
from headrace.protocol.types import Bool, Int8, NullableString, String, message


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


@message(ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsResponse(AlterConfigsResponse, frozen=True):
    """The fields of AlterConfigs."""
