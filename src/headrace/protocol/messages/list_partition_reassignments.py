"""ListPartitionReassignments: which replicas are being moved."""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, NullableString, String, message


class ListPartitionReassignmentsTopics(Struct, frozen=True, kw_only=True):
    name: String
    partition_indexes: tuple[Int32, ...]


@message(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_since=0)
class ListPartitionReassignmentsRequest(Struct, frozen=True, kw_only=True):
    timeout_ms: Int32 = 60_000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


class OngoingPartitionReassignment(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    replicas: tuple[Int32, ...]
    adding_replicas: tuple[Int32, ...]
    removing_replicas: tuple[Int32, ...]


class OngoingTopicReassignment(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[OngoingPartitionReassignment, ...]


@message(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_since=0)
class ListPartitionReassignmentsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    topics: tuple[OngoingTopicReassignment, ...] = ()
