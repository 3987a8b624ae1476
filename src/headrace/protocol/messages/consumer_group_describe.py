"""ConsumerGroupDescribe: state, members and assignments of groups of the newer protocol.

1: whether a member speaks the classic protocol (0) or the newer one (1).
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int8, Int16, Int32, NullableString, String, Uuid, message, since


@message(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeRequest(Struct, frozen=True, kw_only=True):
    group_ids: tuple[String, ...]
    include_authorized_operations: Bool = False


class TopicPartitions(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    topic_name: String
    partitions: tuple[Int32, ...]


class Assignment(Struct, frozen=True, kw_only=True):
    topic_partitions: tuple[TopicPartitions, ...] = ()


class Member(Struct, frozen=True, kw_only=True):
    member_id: String
    instance_id: NullableString = None
    rack_id: NullableString = None
    member_epoch: Int32
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()
    subscribed_topic_regex: NullableString = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: Annotated[Int8, since(1)] = -1


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


@message(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...]
