"""ShareGroupHeartbeat: a member of a share group joins, reports, leaves, and learns its partitions.

In the request, null means unchanged since the last heartbeat. The epoch is 0 to join and -1 to leave. An answer
without an assignment leaves the member with the one that it has.

1: the first version of share groups that is not a preview.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, NullableString, String, Uuid, message


@message(ApiKey.SHARE_GROUP_HEARTBEAT, versions=(1, 1), flexible_since=0)
class ShareGroupHeartbeatRequest(Struct, frozen=True, kw_only=True):
    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: NullableString = None
    subscribed_topic_names: tuple[String, ...] | None = None


class TopicPartitions(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    partitions: tuple[Int32, ...]


class Assignment(Struct, frozen=True, kw_only=True):
    topic_partitions: tuple[TopicPartitions, ...]


@message(ApiKey.SHARE_GROUP_HEARTBEAT, versions=(1, 1), flexible_since=0)
class ShareGroupHeartbeatResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    member_id: NullableString = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
