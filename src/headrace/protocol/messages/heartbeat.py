"""Heartbeat: a member is alive, and learns whether its group rebalances.

1: throttle time.
3: static members.
4: flexible.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, NullableString, String, message, since


@message(ApiKey.HEARTBEAT, versions=(0, 4), flexible_since=4)
class HeartbeatRequest(Struct, frozen=True, kw_only=True):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, since(3)] = None


@message(ApiKey.HEARTBEAT, versions=(0, 4), flexible_since=4)
class HeartbeatResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
