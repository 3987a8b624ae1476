"""Fetch: read record batches from partitions, waiting a while for new ones if there are too few.

 5: the log start offset of each partition.
 7: fetch sessions: the client names partitions once and then only what changes.
 9: the leader epoch that the client knows, so that a stale one is fenced.
10: zstd batches may be sent.
11: the client's rack, and in the response a nearer replica to read from.
12: flexible; the epoch of the last fetched record, so that a truncated log is noticed; leader hints in tags.
13: topics by id instead of by name.
15: the replica id of a follower in a tag.
16: the response has the addresses of new leaders.
17, 18: a follower's directory id, and its high watermark.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import (
    ZERO_UUID,
    Int8,
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


class ReplicaState(Struct, frozen=True, kw_only=True):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Struct, frozen=True, kw_only=True):
    partition: Int32
    current_leader_epoch: Annotated[Int32, since(9)] = -1
    fetch_offset: Int64
    last_fetched_epoch: Annotated[Int32, since(12)] = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    partition_max_bytes: Int32 = 1_048_576
    replica_directory_id: Annotated[Uuid, since(17), tagged(0)] = ZERO_UUID
    high_watermark: Annotated[Int64, since(18), tagged(1)] = 2**63 - 1


class FetchTopic(Struct, frozen=True, kw_only=True):
    topic: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: tuple[FetchPartition, ...]


class ForgottenTopic(Struct, frozen=True, kw_only=True):
    topic: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: tuple[Int32, ...]


@message(ApiKey.FETCH, versions=(4, 18), flexible_since=12)
class FetchRequest(Struct, frozen=True, kw_only=True):
    cluster_id: Annotated[NullableString, since(12), tagged(0)] = None
    replica_id: Annotated[Int32, until(14)] = -1
    replica_state: Annotated[ReplicaState, since(15), tagged(1)] = ReplicaState()
    max_wait_ms: Int32 = 500
    min_bytes: Int32 = 1
    max_bytes: Int32 = 2**31 - 1
    isolation_level: Int8 = 0
    session_id: Annotated[Int32, since(7)] = 0
    session_epoch: Annotated[Int32, since(7)] = -1
    topics: tuple[FetchTopic, ...]
    forgotten_topics_data: Annotated[tuple[ForgottenTopic, ...], since(7)] = ()
    rack_id: Annotated[String, since(11)] = ""


class EpochEndOffset(Struct, frozen=True, kw_only=True):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct, frozen=True, kw_only=True):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct, frozen=True, kw_only=True):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct, frozen=True, kw_only=True):
    producer_id: Int64
    first_offset: Int64


class PartitionData(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64 = -1
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset, since(12), tagged(0)] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, since(12), tagged(1)] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, since(12), tagged(2)] = SnapshotId()
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    preferred_read_replica: Annotated[Int32, since(11)] = -1
    records: Records = b""


class FetchableTopicResponse(Struct, frozen=True, kw_only=True):
    topic: Annotated[String, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: tuple[PartitionData, ...]


class NodeEndpoint(Struct, frozen=True, kw_only=True):
    node_id: Int32
    host: String
    port: Int32
    rack: NullableString = None


@message(ApiKey.FETCH, versions=(4, 18), flexible_since=12)
class FetchResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(7)] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: Annotated[tuple[NodeEndpoint, ...], since(16), tagged(0)] = ()
