"""CreatePartitions: add partitions to a topic. Its records stay in their partitions."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.broker.turns import Turns
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
    turns = Turns()
    grown = []
    for topic in request.topics:
        grown.append(await _grow(topic, request.validate_only, call, turns))
        await turns.next()
    return CreatePartitionsResponse(results=tuple(grown))


async def _grow(
    wanted: CreatePartitionsTopic, validate_only: bool, call: Call, turns: Turns
) -> CreatePartitionsTopicResult:
    topic = call.parts.topics.get(wanted.name)
    if topic is None:
        return CreatePartitionsTopicResult(
            name=wanted.name,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message="the topic does not exist",
        )
    if wanted.assignments is not None:
        node_id = call.parts.settings.node_id
        if len(wanted.assignments) != wanted.count - len(topic.partitions) or any(
            one.broker_ids != (node_id,) for one in wanted.assignments
        ):
            return CreatePartitionsTopicResult(
                name=wanted.name,
                error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                error_message=f"the assignment must put every new partition on the only broker, {node_id}",
            )
    try:
        call.parts.topics.check_growth(topic, wanted.count)
        if not validate_only:
            await turns.run(call.parts.topics.growing(topic, wanted.count))
    except (HeadraceError, OSError) as error:
        return CreatePartitionsTopicResult(
            name=wanted.name, error_code=error_code(error), error_message=str(error)
        )
    return CreatePartitionsTopicResult(name=wanted.name)
