"""ConsumerGroupDescribe: state, members and assignments of groups of the newer protocol.

1: whether a member speaks the classic protocol (0) or the newer one (1).
"""

from __future__ import annotations

from typing import Annotated

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int8, Int16, Int32, NullableString, String, Uuid, message, since
from headrace.values import value


@message(ApiKey.CONSUMER_GROUP_DESCRIBE, versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeRequest:
    group_ids: tuple[String, ...]
    include_authorized_operations: Bool = False


@value
class TopicPartitions:
    topic_id: Uuid
    topic_name: String
    partitions: tuple[Int32, ...]


@value
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...] = ()


@value
class Member:
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


@value
class DescribedGroup:
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
class ConsumerGroupDescribeResponse:
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribedGroup, ...]
