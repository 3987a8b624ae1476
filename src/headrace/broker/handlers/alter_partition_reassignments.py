"""AlterPartitionReassignments: every partition is already on this broker, and no other assignment is valid."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


@handles(ApiKey.ALTER_PARTITION_REASSIGNMENTS, versions=(0, 1))
def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(_reassign(topic.name, wanted, call) for wanted in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _reassign(topic: str, wanted: ReassignablePartition, call: Call) -> ReassignablePartitionResponse:
    index, replicas = wanted.partition_index, wanted.replicas
    code, message = ErrorCode.NONE, None
    if call.parts.topics.get(topic) is None:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {topic}."
    elif call.parts.topics.partition(topic, index) is None:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {topic}:{index}."
    elif replicas is None:
        code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    elif (problem := _problem(replicas, call.parts.settings.node_id)) is not None:
        code, message = ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem
    return ReassignablePartitionResponse(partition_index=index, error_code=code, error_message=message)


def _problem(replicas: tuple[int, ...], node_id: int) -> str | None:
    """Why an assignment is invalid, as Kafka words it: its tools show the message."""
    prefix = "The manual partition assignment includes"
    if not replicas:
        return f"{prefix} an empty replica list."
    for broker_id in sorted(replicas):
        if replicas.count(broker_id) > 1:
            return f"{prefix} the broker {broker_id} more than once."
        if broker_id != node_id:
            return f"{prefix} broker {broker_id}, but no such broker is registered."
    return None
