"""ListPartitionReassignments over the wire, as Apache Kafka answers it."""

from __future__ import annotations

from headrace.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from headrace.testing.wire import Wire
from tests.broker.handlers.test_alter_partition_reassignments import NODE_ID, reassign


def test_no_reassignment_is_under_way_after_one_was_accepted(any_wire: Wire, any_topic: str) -> None:
    assert reassign(any_wire, any_topic, 0, (NODE_ID,)) == 0
    answer = any_wire.ask(ListPartitionReassignmentsRequest())
    assert (answer.error_code, answer.topics) == (0, ())


def test_partition_that_is_asked_for_has_no_reassignment(any_wire: Wire, any_topic: str) -> None:
    asked = ListPartitionReassignmentsTopics(name=any_topic, partition_indexes=(0, 1))
    answer = any_wire.ask(ListPartitionReassignmentsRequest(topics=(asked,)))
    assert (answer.error_code, answer.topics) == (0, ())
