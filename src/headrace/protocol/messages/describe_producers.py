"""DescribeProducers: the idempotent and transactional producers that a partition knows."""

from __future__ import annotations

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, Int64, NullableString, String, message
from headrace.values import value


@value
class TopicRequest:
    name: String
    partition_indexes: tuple[Int32, ...]


@message(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), flexible_since=0)
class DescribeProducersRequest:
    topics: tuple[TopicRequest, ...]


@value
class ProducerState:
    producer_id: Int64
    producer_epoch: Int32
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = -1
    current_txn_start_offset: Int64 = -1


@value
class PartitionResponse:
    partition_index: Int32
    error_code: Int16 = 0
    error_message: NullableString = None
    active_producers: tuple[ProducerState, ...] = ()


@value
class TopicResponse:
    name: String
    partitions: tuple[PartitionResponse, ...]


@message(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), flexible_since=0)
class DescribeProducersResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[TopicResponse, ...]
