"""DeleteRecords: move the start of partitions forward."""

from __future__ import annotations

from functools import partial

from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.broker.rejections import RequestRejected
from headrace.broker.turns import in_turns
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

TO_THE_END = -1


@handles(ApiKey.DELETE_RECORDS, versions=(0, 2), is_long=True)
async def delete_records(request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    topics = []
    for topic in request.topics:
        deleted = await in_turns(topic.partitions, partial(_delete, topic.name, call=call))
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=tuple(deleted)))
    # Deleted records must not reappear after a crash.
    call.parts.topics.checkpoint_starts()
    return DeleteRecordsResponse(topics=tuple(topics))


def _delete(name: str, wanted: DeleteRecordsPartition, call: Call) -> DeleteRecordsPartitionResult:
    index = wanted.partition_index
    try:
        start_offset = _delete_before(name, index, wanted.offset, call)
    except (HeadraceError, OSError) as error:
        return DeleteRecordsPartitionResult(partition_index=index, error_code=error_code(error))
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=start_offset)


def _delete_before(name: str, index: int, offset: int, call: Call) -> int:
    topic = call.parts.topics.get(name)
    partition = call.parts.topics.partition(name, index)
    if topic is None or partition is None:
        raise RequestRejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.is_internal:
        raise RequestRejected(ErrorCode.INVALID_TOPIC_EXCEPTION)
    if "delete" not in partition.log.config.cleanup_policy:
        raise RequestRejected(ErrorCode.POLICY_VIOLATION)
    end_offset = partition.high_watermark
    if offset == TO_THE_END:
        offset = end_offset
    if not 0 <= offset <= end_offset:
        raise RequestRejected(ErrorCode.OFFSET_OUT_OF_RANGE)
    return partition.log.retention.delete_records_before(offset)
