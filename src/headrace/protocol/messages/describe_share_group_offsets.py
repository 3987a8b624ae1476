"""DescribeShareGroupOffsets: where share groups stand in their partitions.

1: how many records are still to be delivered.
"""

from __future__ import annotations

from typing import Annotated

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
from headrace.values import value


@value
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: String
    partitions: tuple[Int32, ...]


@value
class DescribeShareGroupOffsetsRequestGroup:
    """Null asks for all partitions that the group has read from."""

    group_id: String
    topics: tuple[DescribeShareGroupOffsetsRequestTopic, ...] | None


@message(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions=(0, 1), flexible_since=0)
class DescribeShareGroupOffsetsRequest:
    groups: tuple[DescribeShareGroupOffsetsRequestGroup, ...]


@value
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: Int32
    start_offset: Int64 = -1
    leader_epoch: Int32 = 0
    lag: Annotated[Int64, since(1)] = -1
    error_code: Int16 = 0
    error_message: NullableString = None


@value
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: String
    topic_id: Uuid = ZERO_UUID
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...]


@value
class DescribeShareGroupOffsetsResponseGroup:
    group_id: String
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = ()
    error_code: Int16 = 0
    error_message: NullableString = None


@message(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions=(0, 1), flexible_since=0)
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...]
