"""DescribeQuorum: the voters of the cluster's metadata, their leader, and the end offset of each.

1: when a replica fetched and had caught up. 2: messages with errors, ids of folders, addresses of the nodes.
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
    UInt16,
    Uuid,
    message,
    since,
)


class RequestPartitionData(Struct, frozen=True, kw_only=True):
    partition_index: Int32


class RequestTopicData(Struct, frozen=True, kw_only=True):
    topic_name: String
    partitions: tuple[RequestPartitionData, ...]


@message(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), flexible_since=0)
class DescribeQuorumRequest(Struct, frozen=True, kw_only=True):
    topics: tuple[RequestTopicData, ...]


class ReplicaState(Struct, frozen=True, kw_only=True):
    replica_id: Int32
    replica_directory_id: Annotated[Uuid, since(2)] = ZERO_UUID
    log_end_offset: Int64
    last_fetch_timestamp: Annotated[Int64, since(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, since(1)] = -1


class PartitionData(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    error_message: Annotated[NullableString, since(2)] = None
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


class TopicData(Struct, frozen=True, kw_only=True):
    topic_name: String
    partitions: tuple[PartitionData, ...]


class Listener(Struct, frozen=True, kw_only=True):
    name: String
    host: String
    port: UInt16


class Node(Struct, frozen=True, kw_only=True):
    node_id: Int32
    listeners: tuple[Listener, ...]


@message(ApiKey.DESCRIBE_QUORUM, versions=(0, 2), flexible_since=0)
class DescribeQuorumResponse(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    error_message: Annotated[NullableString, since(2)] = None
    topics: tuple[TopicData, ...] = ()
    nodes: Annotated[tuple[Node, ...], since(2)] = ()
