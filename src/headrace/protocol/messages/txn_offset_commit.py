"""TxnOffsetCommit: store how far a group has read, valid only if the transaction commits.

2: the leader epoch of the last record read.
3: flexible; which member of the group commits, so that one that lost its partitions is rejected.
4: the error TRANSACTION_ABORTABLE.
5: under transaction version 2, it also adds the group to the transaction: no AddOffsetsToTxn comes before it.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, Int64, NullableString, String, message, since


class TxnOffsetCommitRequestPartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(2)] = -1
    committed_metadata: NullableString = ""


class TxnOffsetCommitRequestTopic(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@message(ApiKey.TXN_OFFSET_COMMIT, versions=(0, 5), flexible_since=3)
class TxnOffsetCommitRequest(Struct, frozen=True, kw_only=True):
    transactional_id: String
    group_id: String
    producer_id: Int64
    producer_epoch: Int16
    generation_id: Annotated[Int32, since(3)] = -1
    member_id: Annotated[String, since(3)] = ""
    group_instance_id: Annotated[NullableString, since(3)] = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...]


class TxnOffsetCommitResponsePartition(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


@message(ApiKey.TXN_OFFSET_COMMIT, versions=(0, 5), flexible_since=3)
class TxnOffsetCommitResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...]
