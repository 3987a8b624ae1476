"""OffsetDelete: delete a group's offsets in some partitions."""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, String, message


class OffsetDeleteRequestPartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32


class OffsetDeleteRequestTopic(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@message(ApiKey.OFFSET_DELETE, versions=(0, 0), flexible_since=None)
class OffsetDeleteRequest(Struct, frozen=True, kw_only=True):
    group_id: String
    topics: tuple[OffsetDeleteRequestTopic, ...]


class OffsetDeleteResponsePartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[OffsetDeleteResponsePartition, ...]


@message(ApiKey.OFFSET_DELETE, versions=(0, 0), flexible_since=None)
class OffsetDeleteResponse(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()
