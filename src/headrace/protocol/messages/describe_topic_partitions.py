"""DescribeTopicPartitions: topics and their partitions, page by page."""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import (
    ZERO_UUID,
    Bool,
    Int16,
    Int32,
    NullableString,
    String,
    Uuid,
    message,
)


class TopicRequest(Struct, frozen=True, kw_only=True):
    name: String


class Cursor(Struct, frozen=True, kw_only=True):
    topic_name: String
    partition_index: Int32


@message(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), flexible_since=0)
class DescribeTopicPartitionsRequest(Struct, frozen=True, kw_only=True):
    topics: tuple[TopicRequest, ...]
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    eligible_leader_replicas: tuple[Int32, ...] | None = None
    last_known_elr: tuple[Int32, ...] | None = None
    offline_replicas: tuple[Int32, ...] = ()


class DescribeTopicPartitionsResponseTopic(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    name: NullableString
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: Int32 = -(2**31)


@message(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), flexible_since=0)
class DescribeTopicPartitionsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...]
    next_cursor: Cursor | None = None
