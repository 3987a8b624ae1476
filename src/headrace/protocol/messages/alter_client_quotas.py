"""AlterClientQuotas: set and remove the limits of users, client ids and addresses.

1: flexible.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.describe_client_quotas import EntityData
from headrace.protocol.types import Bool, Float64, Int16, Int32, NullableString, String, message


class OpData(Struct, frozen=True, kw_only=True):
    key: String
    value: Float64
    remove: Bool = False


class RequestEntryData(Struct, frozen=True, kw_only=True):
    entity: tuple[EntityData, ...]
    ops: tuple[OpData, ...]


@message(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), flexible_since=1)
class AlterClientQuotasRequest(Struct, frozen=True, kw_only=True):
    entries: tuple[RequestEntryData, ...]
    validate_only: Bool = False


class ResponseEntryData(Struct, frozen=True, kw_only=True):
    error_code: Int16
    error_message: NullableString = None
    entity: tuple[EntityData, ...]


@message(ApiKey.ALTER_CLIENT_QUOTAS, versions=(0, 1), flexible_since=1)
class AlterClientQuotasResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    entries: tuple[ResponseEntryData, ...] = ()
