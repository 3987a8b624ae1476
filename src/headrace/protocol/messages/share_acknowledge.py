"""ShareAcknowledge: acknowledge records of a share session without fetching more.

Epochs and acknowledge types are those of ShareFetch.

1: the first version of share groups that is not a preview.
2: renewal of locks; the response has the lock timeout.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.fetch import NodeEndpoint
from headrace.protocol.messages.share_fetch import AcknowledgementBatch, LeaderIdAndEpoch
from headrace.protocol.types import Bool, Int16, Int32, NullableString, Uuid, message, since


class AcknowledgePartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...]


class AcknowledgeTopic(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    partitions: tuple[AcknowledgePartition, ...]


@message(ApiKey.SHARE_ACKNOWLEDGE, versions=(1, 2), flexible_since=0)
class ShareAcknowledgeRequest(Struct, frozen=True, kw_only=True):
    group_id: NullableString = None
    member_id: NullableString
    share_session_epoch: Int32
    is_renew_ack: Annotated[Bool, since(2)] = False
    topics: tuple[AcknowledgeTopic, ...]


class PartitionData(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


class ShareAcknowledgeTopicResponse(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


@message(ApiKey.SHARE_ACKNOWLEDGE, versions=(1, 2), flexible_since=0)
class ShareAcknowledgeResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Annotated[Int32, since(2)] = 0
    responses: tuple[ShareAcknowledgeTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()
