"""OffsetCommit: commit the offsets of a group. The response waits until they are durable.

5: only the broker sets the retention. 6: leader epochs. 7: static members. 9: GROUP_ID_NOT_FOUND;
members of the newer protocol. 10: topic ids.
"""

from __future__ import annotations

from collections.abc import Awaitable

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.group_offsets import Committer
from headrace.broker.groups.offsets import CommittedOffset, TopicPartition
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headrace.protocol.messages.txn_offset_commit import TxnOffsetCommitRequestPartition

GROUP_NOT_FOUND_SINCE = 9
MEMBER_EPOCH_SINCE = 9
TOPIC_IDS_SINCE = 10

Partition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition

# The error of every partition, in the order of the request.
Errors = list[ErrorCode]


@handles(ApiKey.OFFSET_COMMIT, versions=(2, 10))
def offset_commit(
    request: OffsetCommitRequest, call: Call
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    errors: Errors = []
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for topic in request.topics:
        name = _topic_name(topic, call)
        for partition in topic.partitions:
            key = TopicPartition(name or "", partition.partition_index)
            error = ErrorCode.UNKNOWN_TOPIC_ID if name is None else check_commit(key, partition, call)
            errors.append(error)
            if error is ErrorCode.NONE:
                offsets[key] = committed(partition, call, retention_time_ms=request.retention_time_ms)
    by = Committer(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id_or_member_epoch,
        has_epoch=call.version >= MEMBER_EPOCH_SINCE,
    )
    try:
        storing = call.parts.groups.offsets.commit(request.group_id, offsets, by)
    except RequestRejected as rejected:
        return _respond(request, errors, rejected, call)
    return _when_stored(storing, request, errors, call)


async def _when_stored(
    storing: Awaitable[None], request: OffsetCommitRequest, errors: Errors, call: Call
) -> OffsetCommitResponse:
    try:
        await storing
    except RequestRejected as rejected:
        return _respond(request, errors, rejected, call)
    return _respond(request, errors, None, call)


def _topic_name(topic: OffsetCommitRequestTopic, call: Call) -> str | None:
    if call.version < TOPIC_IDS_SINCE:
        return topic.name
    found = call.parts.topics.get_by_id(topic.topic_id)
    return None if found is None else found.name


def check_commit(key: TopicPartition, partition: Partition, call: Call) -> ErrorCode:
    if call.parts.topics.partition(*key) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata = partition.committed_metadata or ""
    if len(metadata.encode()) > call.parts.settings.offset_metadata_bytes_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def committed(partition: Partition, call: Call, *, retention_time_ms: int = -1) -> CommittedOffset:
    now_ms = call.parts.runtime.clock.now_ms()
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        committed_at_ms=now_ms,
        expires_at_ms=now_ms + retention_time_ms if retention_time_ms >= 0 else None,
    )


def _respond(
    request: OffsetCommitRequest, errors: Errors, rejected: RequestRejected | None, call: Call
) -> OffsetCommitResponse:
    """Partitions with an error keep it; all others get the error of the group."""
    code = ErrorCode.NONE if rejected is None else rejected.code
    if code is ErrorCode.GROUP_ID_NOT_FOUND and call.version < GROUP_NOT_FOUND_SINCE:
        code = ErrorCode.ILLEGAL_GENERATION
    remaining = iter(errors)
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=next(remaining) or code
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
