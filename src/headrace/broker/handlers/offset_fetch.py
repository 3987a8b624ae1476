"""OffsetFetch: the committed offsets of groups, for given partitions or for all.

2: null requests all partitions. 5: leader epochs. 7: "require stable" gets an error for an offset that an open
transaction may change. 8: many groups. 9: the member, for groups of the newer protocol only. 10: topic ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.offsets import CommittedOffset, TopicPartition
from headrace.broker.rejections import RequestRejected
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from headrace.protocol.types import ZERO_UUID

GROUP_ERROR_SINCE = 2
MANY_GROUPS_SINCE = 8
TOPIC_IDS_SINCE = 10

Offsets = Mapping[TopicPartition, CommittedOffset]
UNSTABLE = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", committed_at_ms=-1)
"""Marks an offset that an open transaction may change."""


@handles(ApiKey.OFFSET_FETCH, versions=(1, 10))
def offset_fetch(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    if call.version >= MANY_GROUPS_SINCE:
        stable = request.require_stable
        return OffsetFetchResponse(groups=tuple(_fetch(group, stable, call) for group in request.groups))
    # Before version 8 the same fields have other types.
    wanted = msgspec.convert(
        request.topics, tuple[OffsetFetchRequestTopics, ...] | None, from_attributes=True
    )
    alone = OffsetFetchRequestGroup(group_id=request.group_id, topics=wanted)
    group = _fetch(alone, request.require_stable, call)
    topics = group.topics
    if group.error_code and call.version < GROUP_ERROR_SINCE:
        topics = tuple(
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=tuple(
                    OffsetFetchResponsePartitions(partition_index=index, error_code=group.error_code)
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics or ()
        )
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=msgspec.convert(topics, tuple[OffsetFetchResponseTopic, ...], from_attributes=True),
    )


def _fetch(wanted: OffsetFetchRequestGroup, require_stable: bool, call: Call) -> OffsetFetchResponseGroup:
    groups = call.parts.groups
    try:
        offsets = groups.offsets.committed(
            wanted.group_id, member_id=wanted.member_id, member_epoch=wanted.member_epoch
        )
    except RequestRejected as rejected:
        return OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=rejected.code)
    unstable = groups.offsets.unstable(wanted.group_id) if require_stable else ()
    if unstable:
        offsets = {**offsets, **dict.fromkeys(unstable, UNSTABLE)}
    topics = _all(offsets, call) if wanted.topics is None else _some(wanted.topics, offsets, call)
    return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=tuple(topics))


def _some(
    wanted: Iterable[OffsetFetchRequestTopics], offsets: Offsets, call: Call
) -> Iterable[OffsetFetchResponseTopics]:
    for topic in wanted:
        name, error = topic.name, ErrorCode.NONE
        if call.version >= TOPIC_IDS_SINCE:
            found = call.parts.topics.get_by_id(topic.topic_id)
            name = found.name if found is not None else ""
            error = ErrorCode.NONE if found is not None else ErrorCode.UNKNOWN_TOPIC_ID
        yield OffsetFetchResponseTopics(
            name=name,
            topic_id=topic.topic_id,
            partitions=tuple(
                _partition(index, offsets.get(TopicPartition(name, index)), error)
                for index in topic.partition_indexes
            ),
        )


def _all(offsets: Offsets, call: Call) -> Iterable[OffsetFetchResponseTopics]:
    for name in dict.fromkeys(partition.topic for partition in offsets):
        topic = call.parts.topics.get(name)
        if topic is None and call.version >= TOPIC_IDS_SINCE:
            continue  # a deleted topic has no id for the response
        yield OffsetFetchResponseTopics(
            name=name,
            topic_id=topic.id if topic is not None else ZERO_UUID,
            partitions=tuple(
                _partition(partition.partition, committed, ErrorCode.NONE)
                for partition, committed in offsets.items()
                if partition.topic == name
            ),
        )


def _partition(
    index: int, committed: CommittedOffset | None, error: ErrorCode
) -> OffsetFetchResponsePartitions:
    if committed is None:
        return OffsetFetchResponsePartitions(partition_index=index, error_code=error)
    if committed is UNSTABLE:
        return OffsetFetchResponsePartitions(
            partition_index=index, error_code=error or ErrorCode.UNSTABLE_OFFSET_COMMIT
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )
