"""JoinGroup: join a group, or join it again when it rebalances, and wait for all other members.

1: a rebalance time-out of its own; before, the session's.
2: throttle time.
4: a new member first gets its id with MEMBER_ID_REQUIRED and joins again with it.
5: static members.
6: flexible.
7: the response has the protocol type, and a null protocol in errors.
8: the reason of the client to join.
9: the leader may be required to keep the assignment.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import (
    Bool,
    Bytes,
    Int16,
    Int32,
    NullableString,
    String,
    message,
    nullable_since,
    since,
)


class JoinGroupRequestProtocol(Struct, frozen=True, kw_only=True):
    name: String
    metadata: Bytes


@message(ApiKey.JOIN_GROUP, versions=(0, 9), flexible_since=6)
class JoinGroupRequest(Struct, frozen=True, kw_only=True):
    group_id: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Annotated[Int32, since(1)] = -1
    member_id: String = ""
    group_instance_id: Annotated[NullableString, since(5)] = None
    protocol_type: String
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: Annotated[NullableString, since(8)] = None


class JoinGroupResponseMember(Struct, frozen=True, kw_only=True):
    member_id: String
    group_instance_id: Annotated[NullableString, since(5)] = None
    metadata: Bytes = b""


@message(ApiKey.JOIN_GROUP, versions=(0, 9), flexible_since=6)
class JoinGroupResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(2)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[NullableString, since(7)] = None
    protocol_name: Annotated[NullableString, nullable_since(7)] = ""
    leader: String = ""
    skip_assignment: Annotated[Bool, since(9)] = False
    member_id: String = ""
    members: tuple[JoinGroupResponseMember, ...] = ()
