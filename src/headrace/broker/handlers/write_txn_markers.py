"""WriteTxnMarkers: end transactions in single partitions, as Kafka's `kafka-transactions abort` does."""

from __future__ import annotations

from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from headrace.records.control import MarkerType


@handles(ApiKey.WRITE_TXN_MARKERS, versions=(1, 2))
async def write_txn_markers(request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=tuple([await _write_all(marker, call) for marker in request.markers])
    )


async def _write_all(marker: WritableTxnMarker, call: Call) -> WritableTxnMarkerResult:
    topics = []
    for topic in marker.topics:
        partitions = [
            WritableTxnMarkerPartitionResult(
                partition_index=index, error_code=await _write(marker, topic.name, index, call)
            )
            for index in topic.partition_indexes
        ]
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=tuple(partitions)))
    return WritableTxnMarkerResult(producer_id=marker.producer_id, topics=tuple(topics))


async def _write(marker: WritableTxnMarker, topic: str, index: int, call: Call) -> ErrorCode:
    parts = call.parts
    partition = parts.topics.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    kind = MarkerType.COMMIT if marker.transaction_result else MarkerType.ABORT
    try:
        partition.log.producers.check_marker(marker.producer_id, marker.producer_epoch)
        await parts.markers.write_one(partition, kind, marker.producer_id, marker.producer_epoch)
    except HeadraceError as error:
        return error_code(error)
    return ErrorCode.NONE
