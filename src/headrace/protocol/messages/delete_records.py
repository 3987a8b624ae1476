"""DeleteRecords: advance the log start offset of partitions; offset -1 means to the end.

2: flexible.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, Int64, String, message


class DeleteRecordsPartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    offset: Int64


class DeleteRecordsTopic(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[DeleteRecordsPartition, ...]


@message(ApiKey.DELETE_RECORDS, versions=(0, 2), flexible_since=2)
class DeleteRecordsRequest(Struct, frozen=True, kw_only=True):
    topics: tuple[DeleteRecordsTopic, ...]
    timeout_ms: Int32 = 60_000


class DeleteRecordsPartitionResult(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    low_watermark: Int64 = -1
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[DeleteRecordsPartitionResult, ...]


@message(ApiKey.DELETE_RECORDS, versions=(0, 2), flexible_since=2)
class DeleteRecordsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    topics: tuple[DeleteRecordsTopicResult, ...]
