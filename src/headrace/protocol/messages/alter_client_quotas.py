"""AlterClientQuotas: set and remove the limits of users, client ids and addresses.

1: flexible.
"""

from __future__ import annotations

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Float64, Int16, Int32, NullableString, String, message
from headrace.values import value


@value
class EntityData:
    entity_type: String
    entity_name: NullableString


@value
class OpData:
    key: String
    value: Float64
    remove: Bool = False


@value
class RequestEntryData:
    entity: tuple[EntityData, ...]
    ops: tuple[OpData, ...]


@message(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), flexible_since=1)
class AlterClientQuotasRequest:
    entries: tuple[RequestEntryData, ...]
    validate_only: Bool = False


@value
class ResponseEntryData:
    error_code: Int16
    error_message: NullableString = None
    entity: tuple[EntityData, ...]


@message(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), flexible_since=1)
class AlterClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    entries: tuple[ResponseEntryData, ...] = ()
