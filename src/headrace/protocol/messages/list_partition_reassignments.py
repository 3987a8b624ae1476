"""ListPartitionReassignments: which replicas are being moved."""

from __future__ import annotations

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, NullableString, String, message
from headrace.values import value


@value
class ListPartitionReassignmentsTopics:
    name: String
    partition_indexes: tuple[Int32, ...]


@message(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_since=0)
class ListPartitionReassignmentsRequest:
    timeout_ms: Int32 = 60_000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


@value
class OngoingPartitionReassignment:
    partition_index: Int32
    replicas: tuple[Int32, ...]
    adding_replicas: tuple[Int32, ...]
    removing_replicas: tuple[Int32, ...]


@value
class OngoingTopicReassignment:
    name: String
    partitions: tuple[OngoingPartitionReassignment, ...]


@message(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0), flexible_since=0)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    topics: tuple[OngoingTopicReassignment, ...] = ()
