"""ElectLeaders: this broker is already the leader of every partition, so no election is needed."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

PREFERRED, UNCLEAN = KNOWN_TYPES = 0, 1


@handles(ApiKey.ELECT_LEADERS, versions=(0, 2))
def elect_leaders(request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    is_known = request.election_type in KNOWN_TYPES
    if request.topic_partitions is None:
        # The response would list only partitions with a new leader.
        results = tuple(
            ReplicaElectionResult(topic=topic.name, partition_result=()) for topic in call.parts.topics
        )
    else:
        results = tuple(
            ReplicaElectionResult(
                topic=wanted.topic,
                partition_result=tuple(
                    _outcome(wanted.topic, index, request, call) for index in wanted.partitions
                ),
            )
            for wanted in request.topic_partitions
        )
    return ElectLeadersResponse(
        error_code=ErrorCode.NONE if is_known else ErrorCode.INVALID_REQUEST, replica_election_results=results
    )


def _outcome(topic: str, index: int, request: ElectLeadersRequest, call: Call) -> PartitionResult:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if request.election_type not in KNOWN_TYPES:
        code, message = ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
    elif call.parts.topics.get(topic) is None:
        message = f"No such topic as {topic}"
    elif call.parts.topics.partition(topic, index) is None:
        message = f"No such partition as {topic}-{index}"
    else:
        code, message = ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    return PartitionResult(partition_id=index, error_code=code, error_message=message)
