"""WriteTxnMarkers: put the end of transactions into the partitions that they wrote to.

1: flexible.
2: under which version of the transaction rules the marker was made.
"""

from __future__ import annotations

from typing import Annotated

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int8, Int16, Int32, Int64, String, message, since
from headrace.values import value


@value
class WritableTxnMarkerTopic:
    name: String
    partition_indexes: tuple[Int32, ...]


@value
class WritableTxnMarker:
    """The result is true for a commit, false for an abort."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, since(2)] = 0


@message(ApiKey.WRITE_TXN_MARKERS, versions=(1, 2), flexible_since=1)
class WriteTxnMarkersRequest:
    markers: tuple[WritableTxnMarker, ...]


@value
class WritableTxnMarkerPartitionResult:
    partition_index: Int32
    error_code: Int16 = 0


@value
class WritableTxnMarkerTopicResult:
    name: String
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


@value
class WritableTxnMarkerResult:
    producer_id: Int64
    topics: tuple[WritableTxnMarkerTopicResult, ...]


@message(ApiKey.WRITE_TXN_MARKERS, versions=(1, 2), flexible_since=1)
class WriteTxnMarkersResponse:
    markers: tuple[WritableTxnMarkerResult, ...]
