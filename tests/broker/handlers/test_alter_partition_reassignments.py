"""AlterPartitionReassignments over the wire, compared with Apache Kafka."""

from __future__ import annotations

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.testing.wire import Wire

NODE_ID = 1


def reassign(
    wire: Wire, topic: str, partition: int, replicas: tuple[int, ...] | None, version: int = 1
) -> int:
    wanted = ReassignablePartition(partition_index=partition, replicas=replicas)
    topics = (ReassignableTopic(name=topic, partitions=(wanted,)),)
    response = wire.request(AlterPartitionReassignmentsRequest(topics=topics), version=version)
    assert response.error_code == 0
    ((result,),) = [one.partitions for one in response.responses]
    assert result.partition_index == partition
    code: int = result.error_code
    return code


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        ((NODE_ID,), ErrorCode.NONE),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ((), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((NODE_ID, NODE_ID), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((NODE_ID + 1,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((NODE_ID, NODE_ID + 1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partition_can_only_be_where_it_is(
    any_wire: Wire, any_topic: str, replicas: tuple[int, ...] | None, expected: ErrorCode, version: int
) -> None:
    assert reassign(any_wire, any_topic, 0, replicas, version) == expected


@pytest.mark.parametrize("replicas", [(NODE_ID,), None])
def test_missing_partition_cannot_be_reassigned(
    any_wire: Wire, any_topic: str, replicas: tuple[int, ...] | None
) -> None:
    assert reassign(any_wire, any_topic, 9, replicas) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(any_wire, "no-such-topic", 0, replicas) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
