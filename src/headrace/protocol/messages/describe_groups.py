"""DescribeGroups: state and members of groups.

1: throttle time.
3: permitted operations, if requested.
4: static members' instance ids.
5: flexible.
6: an unknown group is GROUP_ID_NOT_FOUND with a message; before, a group in state Dead.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Bytes, Int16, Int32, NullableString, String, message, since


@message(ApiKey.DESCRIBE_GROUPS, versions=(0, 6), flexible_since=5)
class DescribeGroupsRequest(Struct, frozen=True, kw_only=True):
    groups: tuple[String, ...]
    include_authorized_operations: Annotated[Bool, since(3)] = False


class DescribedGroupMember(Struct, frozen=True, kw_only=True):
    member_id: String
    group_instance_id: Annotated[NullableString, since(4)] = None
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class DescribedGroup(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: Annotated[NullableString, since(6)] = None
    group_id: String
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: Annotated[Int32, since(3)] = -(2**31)


@message(ApiKey.DESCRIBE_GROUPS, versions=(0, 6), flexible_since=5)
class DescribeGroupsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    groups: tuple[DescribedGroup, ...]
