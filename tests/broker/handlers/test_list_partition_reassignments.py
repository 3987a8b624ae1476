"""ListPartitionReassignments over the wire, compared with Apache Kafka."""

from __future__ import annotations

from headrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from headrace.testing.wire import Wire
from tests.broker.handlers.test_alter_partition_reassignments import NODE_ID, reassign


def test_no_reassignment_is_in_progress_after_one_was_accepted(any_wire: Wire, any_topic: str) -> None:
    assert reassign(any_wire, any_topic, 0, (NODE_ID,)) == 0
    response = any_wire.request(ListPartitionReassignmentsRequest())
    assert (response.error_code, response.topics) == (0, ())


def test_requested_partition_has_no_reassignment(any_wire: Wire, any_topic: str) -> None:
    requested = ListPartitionReassignmentsTopics(name=any_topic, partition_indexes=(0, 1))
    response = any_wire.request(ListPartitionReassignmentsRequest(topics=(requested,)))
    assert (response.error_code, response.topics) == (0, ())
