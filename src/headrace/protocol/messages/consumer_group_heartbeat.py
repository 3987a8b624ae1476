"""ConsumerGroupHeartbeat: a member of a group of the newer protocol joins, reports, leaves, and learns its partitions.

In the request, null (or -1) means unchanged since the last heartbeat. The epoch is 0 to join, -1 to leave, -2 for a
static member that will return. A response without an assignment does not change the member's.

1: members choose their own ids; subscription by a regular expression that the broker resolves.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, NullableString, String, Uuid, message, since


class TopicPartitions(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    partitions: tuple[Int32, ...]


@message(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), flexible_since=0)
class ConsumerGroupHeartbeatRequest(Struct, frozen=True, kw_only=True):
    group_id: String
    member_id: String
    member_epoch: Int32
    instance_id: NullableString = None
    rack_id: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: tuple[String, ...] | None = None
    subscribed_topic_regex: Annotated[NullableString, since(1)] = None
    server_assignor: NullableString = None
    topic_partitions: tuple[TopicPartitions, ...] | None = None


class Assignment(Struct, frozen=True, kw_only=True):
    topic_partitions: tuple[TopicPartitions, ...]


@message(ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=(0, 1), flexible_since=0)
class ConsumerGroupHeartbeatResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
