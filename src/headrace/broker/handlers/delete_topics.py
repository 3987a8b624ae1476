"""DeleteTopics: delete topics by name or by id, with their data and their committed offsets, immediately."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import outcome_of
from headrace.broker.rejections import RequestRejected
from headrace.broker.topics import Topic
from headrace.broker.turns import Turns
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
    turns = Turns()
    results = []
    for wanted in request.topics or tuple(DeleteTopicState(name=name) for name in request.topic_names):
        topics = call.parts.topics
        topic = topics.get(wanted.name) if wanted.name is not None else topics.get_by_id(wanted.topic_id)
        outcome = await outcome_of(_delete(topic, wanted, call, turns))
        results.append(
            DeletableTopicResult(
                name=wanted.name if topic is None else topic.name,
                topic_id=wanted.topic_id if topic is None else topic.id,
                error_code=outcome.code,
                error_message=outcome.message,
            )
        )
        await turns.next()
    return DeleteTopicsResponse(responses=tuple(results))


async def _delete(topic: Topic | None, wanted: DeleteTopicState, call: Call, turns: Turns) -> None:
    if topic is None:
        by_name = wanted.name is not None
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
        raise RequestRejected(code, "the topic does not exist")
    if topic.is_internal:
        raise RequestRejected(ErrorCode.INVALID_REQUEST, "the topic is internal and can't be deleted")
    await turns.run(call.parts.topics.deleting(topic))
    call.parts.groups.offsets.topic_deleted(topic.name)
    call.parts.shares.topic_deleted(topic)
