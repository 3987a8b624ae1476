"""CreateTopics over the wire: replicas that one broker cannot have are rejected, as Kafka rejects them."""

from __future__ import annotations

import pytest

from headrace.broker.embedded import Broker
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from headrace.testing.wire import Wire
from tests.broker.requests import new_name


def _create(
    wire: Wire, *brokers_of_partitions: int, num_partitions: int = -1, replication_factor: int = -1
) -> CreatableTopicResult:
    wanted = CreatableTopic(
        name=new_name(),
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=(broker_id,))
            for index, broker_id in enumerate(brokers_of_partitions)
        ),
    )
    (result,) = wire.request(CreateTopicsRequest(topics=(wanted,))).topics
    assert isinstance(result, CreatableTopicResult)
    return result


def test_assignment_to_the_only_broker_is_accepted(wire: Wire, headrace_broker: Broker) -> None:
    node_id = headrace_broker.settings.node_id
    made = _create(wire, node_id, node_id, node_id)
    assert (made.error_code, made.num_partitions) == (0, 3)


def test_assignment_to_a_missing_broker_is_rejected(wire: Wire, headrace_broker: Broker) -> None:
    node_id = headrace_broker.settings.node_id
    assert _create(wire, node_id, node_id + 1).error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


@pytest.mark.parametrize(("num_partitions", "replication_factor"), [(2, -1), (-1, 1), (2, 1)])
def test_assignment_together_with_numbers_is_rejected(
    wire: Wire, headrace_broker: Broker, num_partitions: int, replication_factor: int
) -> None:
    node_id = headrace_broker.settings.node_id
    rejected = _create(
        wire, node_id, node_id, num_partitions=num_partitions, replication_factor=replication_factor
    )
    assert rejected.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("replication_factor", [-2, 0, 2, 3])
def test_replication_factor_other_than_one_is_rejected(wire: Wire, replication_factor: int) -> None:
    rejected = _create(wire, num_partitions=1, replication_factor=replication_factor)
    assert rejected.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
