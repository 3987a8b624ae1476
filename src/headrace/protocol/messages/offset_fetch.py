"""OffsetFetch: how far a group has read.

 2: null requests all topics; an error code for the whole response.
 3: throttle time.
 5: the leader epoch that was committed.
 6: flexible.
 7: the reader may insist on offsets that no open transaction can change.
 8: several groups in one request: `groups` replaces the fields of a single group.
 9: the member id and epoch of members of the newer group protocol.
10: topics by id instead of by name.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import (
    ZERO_UUID,
    Bool,
    Int16,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    message,
    nullable_since,
    since,
    until,
)


class OffsetFetchRequestTopic(Struct, frozen=True, kw_only=True):
    name: String
    partition_indexes: tuple[Int32, ...]


class OffsetFetchRequestTopics(Struct, frozen=True, kw_only=True):
    name: Annotated[String, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partition_indexes: tuple[Int32, ...]


class OffsetFetchRequestGroup(Struct, frozen=True, kw_only=True):
    group_id: String
    member_id: Annotated[NullableString, since(9)] = None
    member_epoch: Annotated[Int32, since(9)] = -1
    topics: tuple[OffsetFetchRequestTopics, ...] | None


@message(ApiKey.OFFSET_FETCH, versions=(1, 10), flexible_since=6)
class OffsetFetchRequest(Struct, frozen=True, kw_only=True):
    group_id: Annotated[String, until(7)] = ""
    topics: Annotated[tuple[OffsetFetchRequestTopic, ...] | None, until(7), nullable_since(2)] = ()
    groups: Annotated[tuple[OffsetFetchRequestGroup, ...], since(8)] = ()
    require_stable: Annotated[Bool, since(7)] = False


class OffsetFetchResponsePartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    committed_offset: Int64 = -1
    committed_leader_epoch: Annotated[Int32, since(5)] = -1
    metadata: NullableString = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[OffsetFetchResponsePartition, ...]


class OffsetFetchResponsePartitions(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    committed_offset: Int64 = -1
    committed_leader_epoch: Int32 = -1
    metadata: NullableString = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Struct, frozen=True, kw_only=True):
    name: Annotated[String, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: tuple[OffsetFetchResponsePartitions, ...]


class OffsetFetchResponseGroup(Struct, frozen=True, kw_only=True):
    group_id: String
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: Int16 = 0


@message(ApiKey.OFFSET_FETCH, versions=(1, 10), flexible_since=6)
class OffsetFetchResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: Annotated[tuple[OffsetFetchResponseTopic, ...], until(7)] = ()
    error_code: Annotated[Int16, since(2), until(7)] = 0
    groups: Annotated[tuple[OffsetFetchResponseGroup, ...], since(8)] = ()
