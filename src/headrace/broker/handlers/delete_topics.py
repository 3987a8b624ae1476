"""DeleteTopics: delete topics by name or by id, with their data and their committed offsets, immediately."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.broker.topics import Topic
from headrace.broker.turns import Turns
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)


@handles(ApiKey.DELETE_TOPICS, versions=(1, 6), is_long=True)
async def delete_topics(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    wanted = request.topics or tuple(DeleteTopicState(name=name) for name in request.topic_names)
    turns = Turns()
    deleted = []
    for one in wanted:
        deleted.append(await _delete(one, call, turns))
        await turns.next()
    return DeleteTopicsResponse(responses=tuple(deleted))


async def _delete(wanted: DeleteTopicState, call: Call, turns: Turns) -> DeletableTopicResult:
    topics = call.parts.topics
    topic = topics.get(wanted.name) if wanted.name is not None else topics.get_by_id(wanted.topic_id)
    if topic is None:
        by_name = wanted.name is not None
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
        return DeletableTopicResult(
            name=wanted.name,
            topic_id=wanted.topic_id,
            error_code=code,
            error_message="the topic does not exist",
        )
    if topic.is_internal:
        return DeletableTopicResult(
            name=topic.name,
            topic_id=topic.id,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="the topic is internal and can't be deleted",
        )
    return await _delete_topic(topic, call, turns)


async def _delete_topic(topic: Topic, call: Call, turns: Turns) -> DeletableTopicResult:
    try:
        await turns.run(call.parts.topics.deleting(topic))
    except (HeadraceError, OSError) as error:
        return DeletableTopicResult(
            name=topic.name, topic_id=topic.id, error_code=error_code(error), error_message=str(error)
        )
    call.parts.groups.offsets.topic_deleted(topic.name)
    call.parts.shares.topic_deleted(topic)
    return DeletableTopicResult(name=topic.name, topic_id=topic.id)
