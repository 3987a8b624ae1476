"""ListOffsets: the offset at a time, or a special one such as the start or the end of a partition.

 2: isolation level: the end that a reader of committed data sees.
 4: leader epochs, for fencing and in the response.
 6: flexible.
 7: timestamp -3 requests the record with the largest timestamp.
 8: timestamp -4 requests the start of the local log.
 9: timestamp -5 requests the end of the archived log.
10: how long the broker may wait for the archive.
11: timestamp -6 requests the first offset not archived yet.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int8, Int16, Int32, Int64, String, message, since


class ListOffsetsPartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    current_leader_epoch: Annotated[Int32, since(4)] = -1
    timestamp: Int64


class ListOffsetsTopic(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[ListOffsetsPartition, ...]


@message(ApiKey.LIST_OFFSETS, versions=(1, 11), flexible_since=6)
class ListOffsetsRequest(Struct, frozen=True, kw_only=True):
    replica_id: Int32 = -1
    isolation_level: Annotated[Int8, since(2)] = 0
    topics: tuple[ListOffsetsTopic, ...]
    timeout_ms: Annotated[Int32, since(10)] = 0


class ListOffsetsPartitionResponse(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Annotated[Int32, since(4)] = -1


class ListOffsetsTopicResponse(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[ListOffsetsPartitionResponse, ...]


@message(ApiKey.LIST_OFFSETS, versions=(1, 11), flexible_since=6)
class ListOffsetsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: tuple[ListOffsetsTopicResponse, ...]
