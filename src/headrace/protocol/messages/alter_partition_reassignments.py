"""AlterPartitionReassignments: which brokers are to have the replicas of partitions, or the end of such a move.

1: whether the number of replicas may change.
"""

from __future__ import annotations

from typing import Annotated

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int16, Int32, NullableString, String, message, since
from headrace.values import value


@value
class ReassignablePartition:
    partition_index: Int32
    replicas: tuple[Int32, ...] | None = None


@value
class ReassignableTopic:
    name: String
    partitions: tuple[ReassignablePartition, ...]


@message(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), flexible_since=0)
class AlterPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Annotated[Bool, since(1)] = True
    topics: tuple[ReassignableTopic, ...]


@value
class ReassignablePartitionResponse:
    partition_index: Int32
    error_code: Int16
    error_message: NullableString = None


@value
class ReassignableTopicResponse:
    name: String
    partitions: tuple[ReassignablePartitionResponse, ...]


@message(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), flexible_since=0)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, since(1)] = True
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: tuple[ReassignableTopicResponse, ...] = ()
