"""OffsetDelete: forget a group's offsets for some partitions."""

from __future__ import annotations

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, String, message
from headrace.values import value


@value
class OffsetDeleteRequestPartition:
    partition_index: Int32


@value
class OffsetDeleteRequestTopic:
    name: String
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@message(ApiKey.OFFSET_DELETE, versions=(0, 0), flexible_since=None)
class OffsetDeleteRequest:
    group_id: String
    topics: tuple[OffsetDeleteRequestTopic, ...]


@value
class OffsetDeleteResponsePartition:
    partition_index: Int32
    error_code: Int16 = 0


@value
class OffsetDeleteResponseTopic:
    name: String
    partitions: tuple[OffsetDeleteResponsePartition, ...]


@message(ApiKey.OFFSET_DELETE, versions=(0, 0), flexible_since=None)
class OffsetDeleteResponse:
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()
