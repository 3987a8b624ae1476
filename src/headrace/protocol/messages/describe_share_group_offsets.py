"""DescribeShareGroupOffsets: the positions of share groups in their partitions.

1: how many records are still to be delivered.
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
)


class DescribeShareGroupOffsetsRequestTopic(Struct, frozen=True, kw_only=True):
    topic_name: String
    partitions: tuple[Int32, ...]


class DescribeShareGroupOffsetsRequestGroup(Struct, frozen=True, kw_only=True):
    """Null requests all partitions that the group has read from."""

    group_id: String
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None


@message(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions=(0, 1), flexible_since=0)
class DescribeShareGroupOffsetsRequest(Struct, frozen=True, kw_only=True):
    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...]


class DescribeShareGroupOffsetsResponsePartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    start_offset: Int64 = -1
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, since(1)] = -1
    error_code: Int16 = 0
    error_message: NullableString = None


class DescribeShareGroupOffsetsResponseTopic(Struct, frozen=True, kw_only=True):
    topic_name: String
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...]


class DescribeShareGroupOffsetsResponseGroup(Struct, frozen=True, kw_only=True):
    group_id: String
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = ()
    error_code: Int16 = 0
    error_message: NullableString = None


@message(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions=(0, 1), flexible_since=0)
class DescribeShareGroupOffsetsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...]
