"""LeaveGroup: members leave without waiting for their sessions to end.

1: throttle time.
3: several members in one request: `members` replaces `member_id`.
4: flexible.
5: the reason.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, NullableString, String, message, since, until


class MemberIdentity(Struct, frozen=True, kw_only=True):
    member_id: String
    group_instance_id: NullableString = None
    reason: Annotated[NullableString, since(5)] = None


@message(ApiKey.LEAVE_GROUP, versions=(0, 5), flexible_since=4)
class LeaveGroupRequest(Struct, frozen=True, kw_only=True):
    group_id: String
    member_id: Annotated[String, until(2)] = ""
    members: Annotated[tuple[MemberIdentity, ...], since(3)] = ()


class MemberResponse(Struct, frozen=True, kw_only=True):
    member_id: String
    group_instance_id: NullableString = None
    error_code: Int16 = 0


@message(ApiKey.LEAVE_GROUP, versions=(0, 5), flexible_since=4)
class LeaveGroupResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    members: Annotated[tuple[MemberResponse, ...], since(3)] = ()
