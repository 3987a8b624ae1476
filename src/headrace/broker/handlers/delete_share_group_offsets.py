"""DeleteShareGroupOffsets: delete the offsets of a share group without members in topics."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import outcome_of
from headrace.broker.handlers.alter_share_group_offsets import require_empty
from headrace.broker.rejections import RequestRejected
from headrace.broker.topics import Topic
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from headrace.protocol.types import ZERO_UUID


@handles(ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions=(0, 0))
async def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, call: Call
) -> DeleteShareGroupOffsetsResponse:
    require_empty(request.group_id, call)
    results = []
    for wanted in request.topics:
        topic = call.parts.topics.get(wanted.topic_name)
        outcome = await outcome_of(_delete(request.group_id, topic, call))
        results.append(
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=wanted.topic_name,
                topic_id=ZERO_UUID if topic is None else topic.id,
                error_code=outcome.code,
                error_message=outcome.message,
            )
        )
    return DeleteShareGroupOffsetsResponse(responses=tuple(results))


async def _delete(group_id: str, topic: Topic | None, call: Call) -> None:
    if topic is None:
        raise RequestRejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist")
    await call.parts.shares.delete_offsets(group_id, topic)
