"""OffsetCommit: commit the offsets of a group.

 3: throttle time.
 5: the client no longer sets the retention of offsets.
 6: the leader epoch of the last record read.
 7: static members.
 8: flexible.
 9: a group that doesn't exist is GROUP_ID_NOT_FOUND; members of the newer group protocol may commit.
10: topics by id instead of by name.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    message,
    since,
    until,
)


class OffsetCommitRequestPartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(6)] = -1
    committed_metadata: NullableString = ""


class OffsetCommitRequestTopic(Struct, frozen=True, kw_only=True):
    name: Annotated[String, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: tuple[OffsetCommitRequestPartition, ...]


@message(ApiKey.OFFSET_COMMIT, versions=(2, 10), flexible_since=8)
class OffsetCommitRequest(Struct, frozen=True, kw_only=True):
    group_id: String
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: Annotated[NullableString, since(7)] = None
    retention_time_ms: Annotated[Int64, until(4)] = -1
    topics: tuple[OffsetCommitRequestTopic, ...]


class OffsetCommitResponsePartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Struct, frozen=True, kw_only=True):
    name: Annotated[String, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: tuple[OffsetCommitResponsePartition, ...]


@message(ApiKey.OFFSET_COMMIT, versions=(2, 10), flexible_since=8)
class OffsetCommitResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: tuple[OffsetCommitResponseTopic, ...]
