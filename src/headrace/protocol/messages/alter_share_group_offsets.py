"""AlterShareGroupOffsets: set the offsets of a share group without members."""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import ZERO_UUID, Int16, Int32, Int64, NullableString, String, Uuid, message


class AlterShareGroupOffsetsRequestPartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    start_offset: Int64


class AlterShareGroupOffsetsRequestTopic(Struct, frozen=True, kw_only=True):
    topic_name: String
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...]


@message(ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions=(0, 0), flexible_since=0)
class AlterShareGroupOffsetsRequest(Struct, frozen=True, kw_only=True):
    group_id: String
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...]


class AlterShareGroupOffsetsResponsePartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    error_message: NullableString = None


class AlterShareGroupOffsetsResponseTopic(Struct, frozen=True, kw_only=True):
    topic_name: String
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...]


@message(ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions=(0, 0), flexible_since=0)
class AlterShareGroupOffsetsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = ()
