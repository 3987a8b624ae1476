"""AlterPartitionReassignments: which brokers are to have the replicas of partitions, or the end of such a move.

1: whether the number of replicas may change.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int16, Int32, NullableString, String, message, since


class ReassignablePartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    replicas: tuple[Int32, ...] | None = None


class ReassignableTopic(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[ReassignablePartition, ...]


@message(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), flexible_since=0)
class AlterPartitionReassignmentsRequest(Struct, frozen=True, kw_only=True):
    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Annotated[Bool, since(1)] = True
    topics: tuple[ReassignableTopic, ...]


class ReassignablePartitionResponse(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16
    error_message: NullableString = None


class ReassignableTopicResponse(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[ReassignablePartitionResponse, ...]


@message(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1), flexible_since=0)
class AlterPartitionReassignmentsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Annotated[Bool, since(1)] = True
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: tuple[ReassignableTopicResponse, ...] = ()
