"""OffsetForLeaderEpoch: the end of the log in an epoch, so that a client notices that its tail was truncated."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.handlers.fetch import check_epoch
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH, versions=(2, 4))
def offset_for_leader_epoch(request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=tuple(_find(topic.topic, one, call) for one in topic.partitions)
            )
            for topic in request.topics
        )
    )


def _find(name: str, wanted: OffsetForLeaderPartition, call: Call) -> EpochEndOffset:
    partition = call.parts.topics.partition(name, wanted.partition)
    if partition is None:
        return EpochEndOffset(partition=wanted.partition, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    code = check_epoch(wanted.current_leader_epoch, partition)
    if code:
        return EpochEndOffset(partition=wanted.partition, error_code=code)
    if wanted.leader_epoch == partition.log.leader_epoch:
        return EpochEndOffset(
            partition=wanted.partition, leader_epoch=wanted.leader_epoch, end_offset=partition.high_watermark
        )
    epoch, end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)
