"""OffsetDelete: delete committed offsets of topics that the group does not consume."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.offsets import TopicPartition
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

Results = Mapping[TopicPartition, ErrorCode]


@handles(ApiKey.OFFSET_DELETE, versions=(0, 0))
def offset_delete(request: OffsetDeleteRequest, call: Call) -> Awaitable[OffsetDeleteResponse]:
    wanted = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
        if call.parts.topics.get(topic.name) is not None
    ]
    return _respond(request, call.parts.groups.offsets.delete(request.group_id, wanted))


async def _respond(request: OffsetDeleteRequest, deleting: Awaitable[Results]) -> OffsetDeleteResponse:
    results = await deleting
    return OffsetDeleteResponse(
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=results.get(
                            TopicPartition(topic.name, partition.partition_index),
                            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        ),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
