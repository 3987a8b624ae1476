"""AlterShareGroupOffsets: put a share group without members to other offsets."""

from __future__ import annotations

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import ZERO_UUID, Int16, Int32, Int64, NullableString, String, Uuid, message
from headrace.values import value


@value
class AlterShareGroupOffsetsRequestPartition:
    partition_index: Int32
    start_offset: Int64


@value
class AlterShareGroupOffsetsRequestTopic:
    topic_name: String
    partitions: tuple[AlterShareGroupOffsetsRequestPartition, ...]


@message(ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions=(0, 0), flexible_since=0)
class AlterShareGroupOffsetsRequest:
    group_id: String
    topics: tuple[AlterShareGroupOffsetsRequestTopic, ...]


@value
class AlterShareGroupOffsetsResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: NullableString = None


@value
class AlterShareGroupOffsetsResponseTopic:
    topic_name: String
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...]


@message(ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions=(0, 0), flexible_since=0)
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = ()
