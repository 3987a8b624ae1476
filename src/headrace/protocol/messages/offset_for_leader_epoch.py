"""OffsetForLeaderEpoch: where a leader epoch ends in a partition's log, so that a reader notices truncation.

3: who asks; -2 stands for a tool that may see everything.
4: flexible.
"""

from __future__ import annotations

from typing import Annotated

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, Int64, String, message, since
from headrace.values import value


@value
class OffsetForLeaderPartition:
    partition: Int32
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32


@value
class OffsetForLeaderTopic:
    topic: String
    partitions: tuple[OffsetForLeaderPartition, ...]


@message(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochRequest:
    replica_id: Annotated[Int32, since(3)] = -2
    topics: tuple[OffsetForLeaderTopic, ...]


@value
class EpochEndOffset:
    error_code: Int16 = 0
    partition: Int32
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


@value
class OffsetForLeaderTopicResult:
    topic: String
    partitions: tuple[EpochEndOffset, ...]


@message(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4), flexible_since=4)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[OffsetForLeaderTopicResult, ...]
