"""SyncGroup: the leader sends the assignment, every member gets its part of it.

1: throttle time.
3: static members.
4: flexible.
5: protocol type and name, checked against the group's and returned.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bytes, Int16, Int32, NullableString, String, message, since


class SyncGroupRequestAssignment(Struct, frozen=True, kw_only=True):
    member_id: String
    assignment: Bytes


@message(ApiKey.SYNC_GROUP, versions=(0, 5), flexible_since=4)
class SyncGroupRequest(Struct, frozen=True, kw_only=True):
    group_id: String
    generation_id: Int32
    member_id: String
    group_instance_id: Annotated[NullableString, since(3)] = None
    protocol_type: Annotated[NullableString, since(5)] = None
    protocol_name: Annotated[NullableString, since(5)] = None
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


@message(ApiKey.SYNC_GROUP, versions=(0, 5), flexible_since=4)
class SyncGroupResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[NullableString, since(5)] = None
    protocol_name: Annotated[NullableString, since(5)] = None
    assignment: Bytes = b""
