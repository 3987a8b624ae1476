"""DescribeTopicPartitions: like Metadata, one page at a time."""

from __future__ import annotations

from headrace.broker.authorized_operations import TOPIC_OPERATIONS_ALL
from headrace.broker.dispatch import Call, handles
from headrace.broker.topics import Topic
from headrace.broker.turns import Turns
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

# The limit of a page, even if the client requests more; Kafka has the same limit.
PAGE_PARTITIONS_MAX = 2_000


@handles(ApiKey.DESCRIBE_TOPIC_PARTITIONS, versions=(0, 0), is_long=True)
async def describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, call: Call
) -> DescribeTopicPartitionsResponse:
    names = sorted({topic.name for topic in request.topics} or {topic.name for topic in call.parts.topics})
    first_partition = 0
    if request.cursor is not None:
        names = [name for name in names if name >= request.cursor.topic_name]
        first_partition = request.cursor.partition_index
    room = min(max(request.response_partition_limit, 1), PAGE_PARTITIONS_MAX)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    turns = Turns()
    for name in names:
        await turns.next()
        if room == 0:
            return DescribeTopicPartitionsResponse(
                topics=tuple(topics), next_cursor=Cursor(topic_name=name, partition_index=0)
            )
        is_continued = request.cursor is not None and name == request.cursor.topic_name
        first = first_partition if is_continued else 0
        described = _describe(name, first, room, call)
        topics.append(described)
        room -= len(described.partitions)
        topic = call.parts.topics.get(name)
        following = first + len(described.partitions)
        if topic is not None and following < len(topic.partitions):
            cursor = Cursor(topic_name=name, partition_index=following)
            return DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=cursor)
    return DescribeTopicPartitionsResponse(topics=tuple(topics))


def _describe(name: str, first: int, room: int, call: Call) -> DescribeTopicPartitionsResponseTopic:
    topic = call.parts.topics.get(name)
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(
            name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=_partitions(topic, first, room, call.parts.settings.node_id),
        topic_authorized_operations=TOPIC_OPERATIONS_ALL,
    )


def _partitions(
    topic: Topic, first: int, room: int, node: int
) -> tuple[DescribeTopicPartitionsResponsePartition, ...]:
    return tuple(
        DescribeTopicPartitionsResponsePartition(
            partition_index=partition.index,
            leader_id=node,
            leader_epoch=partition.log.leader_epoch,
            replica_nodes=(node,),
            isr_nodes=(node,),
            eligible_leader_replicas=(),
            last_known_elr=(),
        )
        for partition in topic.partitions[first : first + room]
    )
