"""OffsetCommit: commit the offsets of a group. The response waits until they are durable.

5: only the broker sets the retention. 6: leader epochs. 7: static members. 9: GROUP_ID_NOT_FOUND;
members of the newer protocol. 10: topic ids.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.offsets import CommittedOffset, TopicPartition
from headrace.broker.refusals import RequestRefused
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

GROUP_NOT_FOUND_SINCE = 9
MEMBER_EPOCH_SINCE = 9
TOPIC_IDS_SINCE = 10

# The error of every partition, in the order of the request.
Errors = list[ErrorCode]


@handles(ApiKey.OFFSET_COMMIT, versions=(2, 10))
def offset_commit(
    request: OffsetCommitRequest, call: Call
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    errors: Errors = []
    offsets: dict[TopicPartition, CommittedOffset] = {}
    for topic, partition in _partitions(request):
        name = _topic_name(topic, call)
        error = _check(name, topic, partition, call)
        errors.append(error)
        if error is ErrorCode.NONE and name is not None:
            key = TopicPartition(name, partition.partition_index)
            offsets[key] = _committed(partition, request.retention_time_ms, call)
    try:
        storing = call.parts.groups.offsets.commit(
            request.group_id,
            offsets,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id_or_member_epoch,
            says_epoch=call.version >= MEMBER_EPOCH_SINCE,
        )
    except RequestRefused as refused:
        return _respond(request, _refused(errors, _code(refused, call)))
    return _when_stored(storing, request, errors, call)


async def _when_stored(
    storing: Awaitable[None], request: OffsetCommitRequest, errors: Errors, call: Call
) -> OffsetCommitResponse:
    try:
        await storing
    except RequestRefused as refused:
        return _respond(request, _refused(errors, _code(refused, call)))
    return _respond(request, errors)


def _partitions(
    request: OffsetCommitRequest,
) -> Iterator[tuple[OffsetCommitRequestTopic, OffsetCommitRequestPartition]]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield topic, partition


def _topic_name(topic: OffsetCommitRequestTopic, call: Call) -> str | None:
    if call.version < TOPIC_IDS_SINCE:
        return topic.name
    found = call.parts.topics.get_by_id(topic.topic_id)
    return None if found is None else found.name


def _check(
    name: str | None, topic: OffsetCommitRequestTopic, partition: OffsetCommitRequestPartition, call: Call
) -> ErrorCode:
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if call.parts.topics.partition(name, partition.partition_index) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    metadata = partition.committed_metadata or ""
    if len(metadata.encode()) > call.parts.settings.offset_metadata_bytes_max:
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def _committed(
    partition: OffsetCommitRequestPartition, retention_time_ms: int, call: Call
) -> CommittedOffset:
    now_ms = call.parts.runtime.clock.now_ms()
    return CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        committed_at_ms=now_ms,
        expires_at_ms=now_ms + retention_time_ms if retention_time_ms >= 0 else None,
    )


def _code(refused: RequestRefused, call: Call) -> ErrorCode:
    if refused.code is ErrorCode.GROUP_ID_NOT_FOUND and call.version < GROUP_NOT_FOUND_SINCE:
        return ErrorCode.ILLEGAL_GENERATION
    return refused.code


def _refused(errors: Errors, code: ErrorCode) -> Errors:
    """Partitions with an error keep it; all others get the error of the group."""
    return [code if error is ErrorCode.NONE else error for error in errors]


def _respond(request: OffsetCommitRequest, errors: Errors) -> OffsetCommitResponse:
    remaining = iter(errors)
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index, error_code=next(remaining)
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
