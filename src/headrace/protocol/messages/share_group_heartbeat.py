"""ShareGroupHeartbeat: a member of a share group joins, reports, leaves, and learns its partitions.

In the request, null means unchanged since the last heartbeat. The epoch is 0 to join and -1 to leave. A response
without an assignment does not change the member's.

1: the first version of share groups that is not a preview.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from headrace.protocol.types import Int32, NullableString, String, message


@message(ApiKey.SHARE_GROUP_HEARTBEAT, versions=(1, 1), flexible_since=0)
class ShareGroupHeartbeatRequest(Struct, frozen=True, kw_only=True):
    group_id: String
    member_id: String
    member_epoch: Int32
    rack_id: NullableString = None
    subscribed_topic_names: tuple[String, ...] | None = None


@message(ApiKey.SHARE_GROUP_HEARTBEAT, versions=(1, 1), flexible_since=0)
class ShareGroupHeartbeatResponse(ConsumerGroupHeartbeatResponse, frozen=True):
    """The fields of ConsumerGroupHeartbeat."""
