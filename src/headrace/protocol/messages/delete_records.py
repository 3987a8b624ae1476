"""DeleteRecords: move the beginning of partitions forward; offset -1 means to the end.

2: flexible.
"""

from __future__ import annotations

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, Int64, String, message
from headrace.values import value


@value
class DeleteRecordsPartition:
    partition_index: Int32
    offset: Int64


@value
class DeleteRecordsTopic:
    name: String
    partitions: tuple[DeleteRecordsPartition, ...]


@message(ApiKey.DELETE_RECORDS, versions=(0, 2), flexible_since=2)
class DeleteRecordsRequest:
    topics: tuple[DeleteRecordsTopic, ...]
    timeout_ms: Int32 = 60_000


@value
class DeleteRecordsPartitionResult:
    partition_index: Int32
    low_watermark: Int64 = -1
    error_code: Int16 = 0


@value
class DeleteRecordsTopicResult:
    name: String
    partitions: tuple[DeleteRecordsPartitionResult, ...]


@message(ApiKey.DELETE_RECORDS, versions=(0, 2), flexible_since=2)
class DeleteRecordsResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...]
