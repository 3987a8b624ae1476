"""DescribeProducers: the idempotent and transactional producers of a partition."""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, Int64, NullableString, String, message


class TopicRequest(Struct, frozen=True, kw_only=True):
    name: String
    partition_indexes: tuple[Int32, ...]


@message(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), flexible_since=0)
class DescribeProducersRequest(Struct, frozen=True, kw_only=True):
    topics: tuple[TopicRequest, ...]


class ProducerState(Struct, frozen=True, kw_only=True):
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = -1
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    error_message: NullableString = None
    active_producers: tuple[ProducerState, ...] = ()


class TopicResponse(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[PartitionResponse, ...]


@message(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), flexible_since=0)
class DescribeProducersResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    topics: tuple[TopicResponse, ...]
