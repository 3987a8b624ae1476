"""ListOffsets: the offset for a timestamp, or one of the special offsets such as the earliest."""

from __future__ import annotations

from functools import partial

from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.broker.handlers.fetch import READ_COMMITTED, check_epoch
from headrace.broker.partition import Partition
from headrace.broker.rejections import RequestRejected
from headrace.broker.turns import Turns
from headrace.errors import HeadraceError
from headrace.log.archive.archived_segments import end_of
from headrace.log.segment_reading import TimestampOffset
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6


@handles(ApiKey.LIST_OFFSETS, versions=(1, 11))
async def list_offsets(request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    turns = Turns()
    topics = []
    for topic in request.topics:
        partitions = []
        for wanted in topic.partitions:
            partitions.append(await _list(topic.name, wanted, request, call))
            await turns.next()
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions)))
    return ListOffsetsResponse(topics=tuple(topics))


async def _list(
    name: str, wanted: ListOffsetsPartition, request: ListOffsetsRequest, call: Call
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    committed_only = request.isolation_level == READ_COMMITTED
    try:
        partition = call.parts.topics.partition(name, index)
        if partition is None:
            raise RequestRejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        code = check_epoch(wanted.current_leader_epoch, partition)
        if code:
            raise RequestRejected(code)
        found = await _find(partition, wanted.timestamp, committed_only, call)
    except (HeadraceError, OSError) as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error_code(error))
    if found is None:
        return ListOffsetsPartitionResponse(partition_index=index)
    return ListOffsetsPartitionResponse(
        partition_index=index,
        timestamp=found.timestamp_ms,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


async def _find(
    partition: Partition, timestamp_ms: int, committed_only: bool, call: Call
) -> TimestampOffset | None:
    log = partition.log
    end_offset = partition.last_stable_offset if committed_only else partition.high_watermark
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD) and not log.config.is_archived:
        return None
    archived_end = end_of(log.archive.entries)
    place = {
        LATEST: end_offset,
        EARLIEST: log.start_offset,
        EARLIEST_LOCAL: log.segments.local_start_offset,
        LATEST_TIERED: archived_end - 1 if archived_end >= 0 else -1,
        EARLIEST_PENDING_UPLOAD: max(archived_end, log.start_offset),
    }.get(timestamp_ms)
    if place is not None:
        epoch = log.leader_epoch if place >= 0 else -1
        return TimestampOffset(offset=place, timestamp_ms=-1, leader_epoch=epoch)
    search = (
        log.reader.max_timestamp
        if timestamp_ms == MAX_TIMESTAMP
        else partial(log.reader.offset_for_timestamp, timestamp_ms, end_offset=end_offset)
    )
    reads_archive = log.start_offset < log.segments.local_start_offset
    return await call.parts.runtime.in_thread(search, reads_archive=reads_archive)
