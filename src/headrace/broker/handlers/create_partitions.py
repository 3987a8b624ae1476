"""CreatePartitions: a topic grows; its records stay where they are."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.broker.turns import in_turns
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


@handles(ApiKey.CREATE_PARTITIONS, versions=(0, 3), is_long=True)
async def create_partitions(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    grown = await in_turns(request.topics, lambda topic: _grow(topic, request.validate_only, call))
    return CreatePartitionsResponse(results=tuple(grown))


def _grow(wanted: CreatePartitionsTopic, validate_only: bool, call: Call) -> CreatePartitionsTopicResult:
    topic = call.services.topics.get(wanted.name)
    if topic is None:
        return CreatePartitionsTopicResult(
            name=wanted.name,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message="there is no such topic",
        )
    if wanted.assignments is not None:
        node_id = call.services.settings.node_id
        if len(wanted.assignments) != wanted.count - len(topic.partitions) or any(
            one.broker_ids != (node_id,) for one in wanted.assignments
        ):
            return CreatePartitionsTopicResult(
                name=wanted.name,
                error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                error_message=f"the assignment must put every new partition on broker {node_id}, the only one",
            )
    try:
        call.services.topics.add_partitions(topic, wanted.count, validate_only=validate_only)
    except (HeadraceError, OSError) as error:
        return CreatePartitionsTopicResult(
            name=wanted.name, error_code=error_code(error), error_message=str(error)
        )
    return CreatePartitionsTopicResult(name=wanted.name)
