"""ShareGroupDescribe: state, members and assignments of share groups.

1: the first version of share groups that is not a preview.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeRequest
from headrace.protocol.types import Int16, Int32, NullableString, String, message


@message(ApiKey.SHARE_GROUP_DESCRIBE, versions=(1, 1), flexible_since=0)
class ShareGroupDescribeRequest(ConsumerGroupDescribeRequest, frozen=True):
    """The fields of ConsumerGroupDescribe."""


class Member(Struct, frozen=True, kw_only=True):
    member_id: String
    rack_id: NullableString = None
    member_epoch: Int32
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()
    assignment: Assignment = Assignment()


class DescribedGroup(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: NullableString = None
    group_id: String
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: tuple[Member, ...] = ()
    authorized_operations: Int32 = -(2**31)


@message(ApiKey.SHARE_GROUP_DESCRIBE, versions=(1, 1), flexible_since=0)
class ShareGroupDescribeResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...]
