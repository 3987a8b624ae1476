"""Produce: append record batches to partitions."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from headrace.protocol.types import (
    ZERO_UUID,
    Int16,
    Int32,
    Int64,
    NullableString,
    Records,
    String,
    Uuid,
    message,
    since,
    tagged,
    until,
)


class PartitionProduceData(Struct, frozen=True, kw_only=True):
    index: Int32
    records: Records


class TopicProduceData(Struct, frozen=True, kw_only=True):
    name: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_data: tuple[PartitionProduceData, ...]


@message(ApiKey.PRODUCE, versions=(3, 13), flexible_since=9)
class ProduceRequest(Struct, frozen=True, kw_only=True):
    transactional_id: Annotated[NullableString, since(3)] = None
    acks: Int16
    timeout_ms: Int32
    topic_data: tuple[TopicProduceData, ...]


class BatchIndexAndErrorMessage(Struct, frozen=True, kw_only=True):
    batch_index: Int32
    batch_index_error_message: NullableString = None


class PartitionProduceResponse(Struct, frozen=True, kw_only=True):
    index: Int32
    error_code: Int16 = 0
    base_offset: Int64 = -1
    log_append_time_ms: Annotated[Int64, since(2)] = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    record_errors: Annotated[tuple[BatchIndexAndErrorMessage, ...], since(8)] = ()
    error_message: Annotated[NullableString, since(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch, since(10), tagged(0)] = LeaderIdAndEpoch()


class TopicProduceResponse(Struct, frozen=True, kw_only=True):
    name: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_responses: tuple[PartitionProduceResponse, ...]


@message(ApiKey.PRODUCE, versions=(3, 13), flexible_since=9)
class ProduceResponse(Struct, frozen=True, kw_only=True):
    responses: tuple[TopicProduceResponse, ...]
    throttle_time_ms: Annotated[Int32, since(1)] = 0
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], since(10), tagged(0)] = ()
