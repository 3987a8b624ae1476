"""ElectLeaders: make the preferred replica, or in need any, the leader of partitions.

1: the kind of election, and an error for the whole. 2: flexible.
"""

from __future__ import annotations

from typing import Annotated

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int8, Int16, Int32, NullableString, String, message, since
from headrace.values import value


@value
class TopicPartitions:
    topic: String
    partitions: tuple[Int32, ...]


@message(ApiKey.ELECT_LEADERS, versions=(0, 2), flexible_since=2)
class ElectLeadersRequest:
    election_type: Annotated[Int8, since(1)] = 0
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout_ms: Int32 = 60_000


@value
class PartitionResult:
    partition_id: Int32
    error_code: Int16
    error_message: NullableString = None


@value
class ReplicaElectionResult:
    topic: String
    partition_result: tuple[PartitionResult, ...]


@message(ApiKey.ELECT_LEADERS, versions=(0, 2), flexible_since=2)
class ElectLeadersResponse:
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(1)] = 0
    replica_election_results: tuple[ReplicaElectionResult, ...] = ()
