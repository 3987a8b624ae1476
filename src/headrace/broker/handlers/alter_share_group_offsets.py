"""AlterShareGroupOffsets: set the start offsets of a share group without members, or create a group with them."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.broker.refusals import RequestRefused
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)


@handles(ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions=(0, 0))
async def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, call: Call
) -> AlterShareGroupOffsetsResponse:
    try:
        if not request.group_id:
            raise RequestRefused(ErrorCode.INVALID_GROUP_ID, "GroupId can't be empty.")
        if call.parts.share_members.get(request.group_id) is None:
            require_free(request.group_id, call)
        else:
            require_empty(request.group_id, call)
    except RequestRefused as refused:
        return AlterShareGroupOffsetsResponse(error_code=refused.code, error_message=refused.message)
    topics = [await _alter(request.group_id, topic, call) for topic in request.topics]
    return AlterShareGroupOffsetsResponse(responses=tuple(topics))


def require_free(group_id: str, call: Call) -> None:
    """Raise the error of the response if no share group can have this name."""
    call.parts.shares.require_available()
    if call.parts.groups.is_taken(group_id):
        raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    if not call.parts.share_members.has_room:
        raise RequestRefused(ErrorCode.GROUP_MAX_SIZE_REACHED, "There are too many groups.")


def require_empty(group_id: str, call: Call) -> None:
    """Raise the error of the response if this is not a share group without members."""
    call.parts.shares.require_available()
    group = call.parts.share_members.get(group_id)
    if group is None:
        raise RequestRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if group.members:
        raise RequestRefused(ErrorCode.NON_EMPTY_GROUP, f"Group {group_id} has members.")


async def _alter(
    group_id: str, wanted: AlterShareGroupOffsetsRequestTopic, call: Call
) -> AlterShareGroupOffsetsResponseTopic:
    topic = call.parts.topics.get(wanted.topic_name)
    known = len(topic.partitions) if topic is not None else 0
    starts = {
        part.partition_index: part.start_offset
        for part in wanted.partitions
        if 0 <= part.partition_index < known
    }
    failure: ErrorCode = ErrorCode.NONE
    if topic is not None and starts:
        try:
            await call.parts.shares.alter_offsets(group_id, topic, starts)
        except (HeadraceError, OSError) as error:
            failure = error_code(error)
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=wanted.topic_name,
        **({"topic_id": topic.id} if topic is not None else {}),
        partitions=tuple(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=part.partition_index,
                error_code=failure
                if part.partition_index in starts
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for part in wanted.partitions
        ),
    )
