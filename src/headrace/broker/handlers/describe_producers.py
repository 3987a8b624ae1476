"""DescribeProducers: the idempotent and transactional producers that a partition knows."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

NONE = -1


@handles(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0))
def describe_producers(request: DescribeProducersRequest, call: Call) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(_describe(topic.name, index, call) for index in topic.partition_indexes),
            )
            for topic in request.topics
        )
    )


def _describe(topic: str, index: int, call: Call) -> PartitionResponse:
    partition = call.parts.topics.partition(topic, index)
    if partition is None:
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=None
        )
    producers = partition.log.producers
    return PartitionResponse(
        partition_index=index,
        active_producers=tuple(
            ProducerState(
                producer_id=producer_id,
                producer_epoch=state.epoch,
                last_sequence=state.batches[-1].last_sequence if state.batches else NONE,
                last_timestamp=state.seen_ms,
                coordinator_epoch=state.coordinator_epoch,
                current_txn_start_offset=producers.open_transactions.get(producer_id, NONE),
            )
            for producer_id, state in producers.by_id.items()
        ),
    )
