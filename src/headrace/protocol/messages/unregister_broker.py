"""UnregisterBroker: remove a broker that will not return."""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, NullableString, message


@message(ApiKey.UNREGISTER_BROKER, versions=(0, 0), flexible_since=0)
class UnregisterBrokerRequest(Struct, frozen=True, kw_only=True):
    broker_id: Int32


@message(ApiKey.UNREGISTER_BROKER, versions=(0, 0), flexible_since=0)
class UnregisterBrokerResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
