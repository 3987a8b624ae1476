"""DescribeClientQuotas: the limits of users, client ids and addresses.

1: flexible.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Float64, Int8, Int16, Int32, NullableString, String, message


class ComponentData(Struct, frozen=True, kw_only=True):
    entity_type: String
    match_type: Int8
    match: NullableString


@message(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), flexible_since=1)
class DescribeClientQuotasRequest(Struct, frozen=True, kw_only=True):
    components: tuple[ComponentData, ...]
    strict: Bool = False


class EntityData(Struct, frozen=True, kw_only=True):
    entity_type: String
    entity_name: NullableString


class ValueData(Struct, frozen=True, kw_only=True):
    key: String
    value: Float64


class EntryData(Struct, frozen=True, kw_only=True):
    entity: tuple[EntityData, ...]
    values: tuple[ValueData, ...]


@message(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=(0, 1), flexible_since=1)
class DescribeClientQuotasResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    entries: tuple[EntryData, ...] | None = None
