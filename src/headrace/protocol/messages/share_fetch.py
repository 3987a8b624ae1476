"""ShareFetch: acquire records for a member of a share group, and acknowledge earlier ones.

The session's epoch is 0 to open it and -1 to close it; in between it counts requests. Acknowledge types are 0 for a
gap, 1 to accept, 2 to release, 3 to reject and 4 to renew; one of them for a whole batch, or one for each offset. The
records of the response may be more than those acquired: only `acquired_records` are the member's.

1: the first version of share groups that is not a preview.
2: renewal of locks; a strict limit of records (acquire mode 1) instead of whole batches (0).
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.fetch import NodeEndpoint
from headrace.protocol.types import (
    Bool,
    Buffer,
    Int8,
    Int16,
    Int32,
    Int64,
    NullableString,
    Uuid,
    Wire,
    message,
    since,
)


class AcknowledgementBatch(Struct, frozen=True, kw_only=True):
    """Both offsets are part of it."""

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: tuple[Int8, ...]


class FetchPartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


class FetchTopic(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    partitions: tuple[FetchPartition, ...]


class ForgottenTopic(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    partitions: tuple[Int32, ...]


@message(ApiKey.SHARE_FETCH, versions=(1, 2), flexible_since=0)
class ShareFetchRequest(Struct, frozen=True, kw_only=True):
    group_id: NullableString = None
    member_id: NullableString
    share_session_epoch: Int32
    max_wait_ms: Int32 = 500
    min_bytes: Int32 = 1
    max_bytes: Int32 = 2**31 - 1
    max_records: Int32 = 500
    batch_size: Int32 = 500
    share_acquire_mode: Annotated[Int8, since(2)] = 0
    is_renew_ack: Annotated[Bool, since(2)] = False
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()


class LeaderIdAndEpoch(Struct, frozen=True, kw_only=True):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Struct, frozen=True, kw_only=True):
    """Both offsets are part of it."""

    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


class PartitionData(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    error_message: NullableString = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: NullableString = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    records: Annotated[Buffer, Wire.RECORDS] = b""
    acquired_records: tuple[AcquiredRecords, ...] = ()


class ShareFetchableTopicResponse(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    partitions: tuple[PartitionData, ...]


@message(ApiKey.SHARE_FETCH, versions=(1, 2), flexible_since=0)
class ShareFetchResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: tuple[ShareFetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()
