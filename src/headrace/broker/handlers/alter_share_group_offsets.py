"""AlterShareGroupOffsets: set the start offsets of a share group without members, or create a group with them."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import Outcome, outcome_of
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from headrace.protocol.types import ZERO_UUID


@handles(ApiKey.ALTER_SHARE_GROUP_OFFSETS, versions=(0, 0))
async def alter_share_group_offsets(
    request: AlterShareGroupOffsetsRequest, call: Call
) -> AlterShareGroupOffsetsResponse:
    if not request.group_id:
        raise RequestRejected(ErrorCode.INVALID_GROUP_ID, "GroupId can't be empty.")
    if call.parts.share_members.get(request.group_id) is None:
        require_free(request.group_id, call)
    else:
        require_empty(request.group_id, call)
    topics = [await _alter(request.group_id, topic, call) for topic in request.topics]
    return AlterShareGroupOffsetsResponse(responses=tuple(topics))


def require_free(group_id: str, call: Call) -> None:
    """Raise the error of the response if no share group can have this name."""
    call.parts.shares.require_available()
    if call.parts.groups.is_taken(group_id):
        raise RequestRejected(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    if not call.parts.share_members.has_room:
        raise RequestRejected(ErrorCode.GROUP_MAX_SIZE_REACHED, "There are too many groups.")


def require_empty(group_id: str, call: Call) -> None:
    """Raise the error of the response if this is not a share group without members."""
    call.parts.shares.require_available()
    group = call.parts.share_members.get(group_id)
    if group is None:
        raise RequestRejected(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if group.members:
        raise RequestRejected(ErrorCode.NON_EMPTY_GROUP, f"Group {group_id} has members.")


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
    outcome = Outcome()
    if topic is not None and starts:
        outcome = await outcome_of(call.parts.shares.alter_offsets(group_id, topic, starts))
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=wanted.topic_name,
        topic_id=ZERO_UUID if topic is None else topic.id,
        partitions=tuple(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=part.partition_index,
                error_code=outcome.code
                if part.partition_index in starts
                else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            for part in wanted.partitions
        ),
    )
