"""DeleteShareGroupOffsets: delete the offsets of a share group without members in topics."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.broker.handlers.alter_share_group_offsets import require_empty
from headrace.broker.refusals import RequestRefused
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


@handles(ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions=(0, 0))
async def delete_share_group_offsets(
    request: DeleteShareGroupOffsetsRequest, call: Call
) -> DeleteShareGroupOffsetsResponse:
    try:
        require_empty(request.group_id, call)
    except RequestRefused as refused:
        return DeleteShareGroupOffsetsResponse(error_code=refused.code, error_message=refused.message)
    results = [await _delete(request.group_id, topic.topic_name, call) for topic in request.topics]
    return DeleteShareGroupOffsetsResponse(responses=tuple(results))


async def _delete(group_id: str, name: str, call: Call) -> DeleteShareGroupOffsetsResponseTopic:
    topic = call.parts.topics.get(name)
    if topic is None:
        return DeleteShareGroupOffsetsResponseTopic(
            topic_name=name,
            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            error_message="the topic does not exist",
        )
    try:
        await call.parts.shares.delete_offsets(group_id, topic)
    except (HeadraceError, OSError) as error:
        return DeleteShareGroupOffsetsResponseTopic(
            topic_name=name, topic_id=topic.id, error_code=error_code(error), error_message=str(error)
        )
    return DeleteShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic.id)
