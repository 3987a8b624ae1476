"""CreatePartitions over the wire: topics grow, onto the one broker there is."""

from __future__ import annotations

from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.testing.wire import Wire


def _grow(wire: Wire, topic: str, count: int, *brokers_of_new_partitions: int) -> int:
    """The error code of growing `topic` to `count` partitions."""
    wanted = CreatePartitionsTopic(
        name=topic,
        count=count,
        assignments=tuple(CreatePartitionsAssignment(broker_ids=(id,)) for id in brokers_of_new_partitions)
        or None,
    )
    (result,) = wire.request(CreatePartitionsRequest(topics=(wanted,))).results
    return int(result.error_code)


def test_assignment_to_the_only_broker_is_accepted(wire: Wire, topic: str, headrace_broker: Broker) -> None:
    node_id = headrace_broker.settings.node_id
    assert _grow(wire, topic, 3, node_id, node_id) == 0
    assert _grow(wire, topic, 4) == 0
    assert _grow(wire, topic, 4) == ErrorCode.INVALID_PARTITIONS


def test_assignment_to_a_missing_broker_is_rejected(wire: Wire, topic: str, headrace_broker: Broker) -> None:
    node_id = headrace_broker.settings.node_id
    assert _grow(wire, topic, 3, node_id, node_id + 1) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert _grow(wire, topic, 2) == 0


def test_assignment_without_a_new_partition_is_rejected(
    wire: Wire, topic: str, headrace_broker: Broker
) -> None:
    assert _grow(wire, topic, 3, headrace_broker.settings.node_id) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
