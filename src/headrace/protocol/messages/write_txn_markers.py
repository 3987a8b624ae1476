"""WriteTxnMarkers: put the end of transactions into the partitions that they wrote to.

1: flexible.
2: the version of the transaction protocol of the marker.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int8, Int16, Int32, Int64, String, message, since


class WritableTxnMarkerTopic(Struct, frozen=True, kw_only=True):
    name: String
    partition_indexes: tuple[Int32, ...]


class WritableTxnMarker(Struct, frozen=True, kw_only=True):
    """The result is true for a commit, false for an abort."""

    producer_id: Int64
    producer_epoch: Int16
    transaction_result: Bool
    topics: tuple[WritableTxnMarkerTopic, ...]
    coordinator_epoch: Int32 = 0
    transaction_version: Annotated[Int8, since(2)] = 0


@message(ApiKey.WRITE_TXN_MARKERS, versions=(1, 2), flexible_since=1)
class WriteTxnMarkersRequest(Struct, frozen=True, kw_only=True):
    markers: tuple[WritableTxnMarker, ...]


class WritableTxnMarkerPartitionResult(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[WritableTxnMarkerPartitionResult, ...]


class WritableTxnMarkerResult(Struct, frozen=True, kw_only=True):
    producer_id: Int64
    topics: tuple[WritableTxnMarkerTopicResult, ...]


@message(ApiKey.WRITE_TXN_MARKERS, versions=(1, 2), flexible_since=1)
class WriteTxnMarkersResponse(Struct, frozen=True, kw_only=True):
    markers: tuple[WritableTxnMarkerResult, ...]
