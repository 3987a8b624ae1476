"""Metadata: which brokers there are, and who leads which partition.

 0: an empty list of topics means all of them.
 1: null means all, empty means none; racks, controller, internal topics.
 2: cluster id.
 4: whether an unknown topic may be created.
 5: offline replicas.
 7: leader epochs.
 8: permitted operations, if requested.
 9: flexible.
10: topic ids in the response.
11: the cluster's permitted operations moved to DescribeCluster.
12: topics may be requested by id, with a null name.
13: an error code for the whole response.
"""

from __future__ import annotations

from typing import Annotated

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
    nullable_since,
    since,
    until,
)


class MetadataRequestTopic(Struct, frozen=True, kw_only=True):
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    name: Annotated[NullableString, nullable_since(10)]


@message(ApiKey.METADATA, versions=(0, 13), flexible_since=9)
class MetadataRequest(Struct, frozen=True, kw_only=True):
    topics: Annotated[tuple[MetadataRequestTopic, ...] | None, nullable_since(1)]
    allow_auto_topic_creation: Annotated[Bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, since(8), until(10)] = False
    include_topic_authorized_operations: Annotated[Bool, since(8)] = False


class MetadataResponseBroker(Struct, frozen=True, kw_only=True):
    node_id: Int32
    host: String
    port: Int32
    rack: Annotated[NullableString, since(1)] = None


class MetadataResponsePartition(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    partition_index: Int32
    leader_id: Int32 = -1
    leader_epoch: Annotated[Int32, since(7)] = -1
    replica_nodes: tuple[Int32, ...] = ()
    isr_nodes: tuple[Int32, ...] = ()
    offline_replicas: Annotated[tuple[Int32, ...], since(5)] = ()


class MetadataResponseTopic(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    name: Annotated[NullableString, nullable_since(12)]
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    is_internal: Annotated[Bool, since(1)] = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: Annotated[Int32, since(8)] = -(2**31)


@message(ApiKey.METADATA, versions=(0, 13), flexible_since=9)
class MetadataResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(3)] = 0
    brokers: tuple[MetadataResponseBroker, ...]
    cluster_id: Annotated[NullableString, since(2)] = None
    controller_id: Annotated[Int32, since(1)] = -1
    topics: tuple[MetadataResponseTopic, ...]
    cluster_authorized_operations: Annotated[Int32, since(8), until(10)] = -(2**31)
    error_code: Annotated[Int16, since(13)] = 0
