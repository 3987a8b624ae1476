"""CreatePartitions: add partitions to a topic. Its records stay in their partitions."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import outcome_of
from headrace.broker.rejections import RequestRejected
from headrace.broker.turns import Turns
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
    results = []
    for topic in request.topics:
        outcome = await outcome_of(_grow(topic, request.validate_only, call, turns))
        results.append(
            CreatePartitionsTopicResult(
                name=topic.name, error_code=outcome.code, error_message=outcome.message
            )
        )
        await turns.next()
    return CreatePartitionsResponse(results=tuple(results))


async def _grow(wanted: CreatePartitionsTopic, validate_only: bool, call: Call, turns: Turns) -> None:
    topic = call.parts.topics.get(wanted.name)
    if topic is None:
        raise RequestRejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist")
    if wanted.assignments is not None:
        node_id = call.parts.settings.node_id
        if len(wanted.assignments) != wanted.count - len(topic.partitions) or any(
            one.broker_ids != (node_id,) for one in wanted.assignments
        ):
            raise RequestRejected(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"the assignment must put every new partition on the only broker, {node_id}",
            )
    call.parts.topics.check_growth(topic, wanted.count)
    if not validate_only:
        await turns.run(call.parts.topics.growing(topic, wanted.count))
