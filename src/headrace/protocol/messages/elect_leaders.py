"""ElectLeaders: elect the preferred replica, or in need any, as leader of partitions.

1: the kind of election, and an error for the whole. 2: flexible.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int8, Int16, Int32, NullableString, String, message, since


class TopicPartitions(Struct, frozen=True, kw_only=True):
    topic: String
    partitions: tuple[Int32, ...]


@message(ApiKey.ELECT_LEADERS, versions=(0, 2), flexible_since=2)
class ElectLeadersRequest(Struct, frozen=True, kw_only=True):
    election_type: Annotated[Int8, since(1)] = 0
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout_ms: Int32 = 60_000


class PartitionResult(Struct, frozen=True, kw_only=True):
    partition_id: Int32
    error_code: Int16
    error_message: NullableString = None


class ReplicaElectionResult(Struct, frozen=True, kw_only=True):
    topic: String
    partition_result: tuple[PartitionResult, ...]


@message(ApiKey.ELECT_LEADERS, versions=(0, 2), flexible_since=2)
class ElectLeadersResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(1)] = 0
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()
