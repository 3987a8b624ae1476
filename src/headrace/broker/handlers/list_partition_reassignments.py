"""ListPartitionReassignments: always empty, because one broker never moves a replica."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@handles(ApiKey.LIST_PARTITION_REASSIGNMENTS, versions=(0, 0))
def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse()
