"""DescribeShareGroupOffsets: the start offsets and the lag of share groups in their partitions."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.rejections import RequestRejected
from headrace.broker.shares.share_partition import SharePartition
from headrace.broker.shares.storage import ShareKey
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from headrace.protocol.types import ZERO_UUID


@handles(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, versions=(0, 1))
def describe_share_group_offsets(
    request: DescribeShareGroupOffsetsRequest, call: Call
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=tuple(_describe(group, call) for group in request.groups))


def _describe(
    wanted: DescribeShareGroupOffsetsRequestGroup, call: Call
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = wanted.group_id
    try:
        call.parts.shares.require_available()
    except RequestRejected as rejected:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=group_id, error_code=rejected.code, error_message=rejected.message
        )
    if wanted.topics is None:
        topics = _all_topics(group_id, call)
    else:
        topics = tuple(_topic(group_id, topic, call) for topic in wanted.topics)
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=topics)


def _all_topics(group_id: str, call: Call) -> tuple[DescribeShareGroupOffsetsResponseTopic, ...]:
    found: dict[str, list[SharePartition]] = {}
    for share in call.parts.shares.of_group(group_id):
        found.setdefault(share.partition.topic_name, []).append(share)
    return tuple(
        DescribeShareGroupOffsetsResponseTopic(
            topic_name=name,
            topic_id=shares[0].key.topic_id,
            partitions=tuple(_partition(share.key.partition, share) for share in shares),
        )
        for name, shares in found.items()
    )


def _topic(
    group_id: str, wanted: DescribeShareGroupOffsetsRequestTopic, call: Call
) -> DescribeShareGroupOffsetsResponseTopic:
    topic = call.parts.topics.get(wanted.topic_name)
    topic_id = ZERO_UUID if topic is None else topic.id
    shares = call.parts.shares
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=wanted.topic_name,
        topic_id=topic_id,
        partitions=tuple(
            _partition(index, shares.get(ShareKey(group_id, topic_id, index))) for index in wanted.partitions
        ),
    )


def _partition(index: int, share: SharePartition | None) -> DescribeShareGroupOffsetsResponsePartition:
    """A group that does not consume the partition has no offset. This is no error, even if one of them is missing."""
    if share is None:
        return DescribeShareGroupOffsetsResponsePartition(partition_index=index)
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=share.window.start_offset, lag=share.lag
    )
