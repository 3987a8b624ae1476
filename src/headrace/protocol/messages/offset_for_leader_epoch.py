"""OffsetForLeaderEpoch: where a leader epoch ends in a partition's log, so that a reader notices truncation.

3: the replica id of the client; -2 for a tool that may see everything.
4: flexible.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, Int64, String, message, since


class OffsetForLeaderPartition(Struct, frozen=True, kw_only=True):
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


class OffsetForLeaderTopic(Struct, frozen=True, kw_only=True):
    topic: String
    partitions: tuple[OffsetForLeaderPartition, ...]


@message(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochRequest(Struct, frozen=True, kw_only=True):
    replica_id: Annotated[Int32, since(3)] = -2
    topics: tuple[OffsetForLeaderTopic, ...]


class EpochEndOffset(Struct, frozen=True, kw_only=True):
    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct, frozen=True, kw_only=True):
    topic: String
    partitions: tuple[EpochEndOffset, ...]


@message(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetForLeaderTopicResult, ...]
