"""AddPartitionsToTxn: partitions that a transaction is about to write to.

2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH.
3: flexible. The last version that clients use.
4: for brokers: several transactions in one request, or only whether a partition is part of one already.
5: the error TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int16, Int32, Int64, String, message, since, until


class AddPartitionsToTxnTopic(Struct, frozen=True, kw_only=True):
    name: String
    partitions: tuple[Int32, ...]


class AddPartitionsToTxnTransaction(Struct, frozen=True, kw_only=True):
    transactional_id: String
    producer_id: Int64
    producer_epoch: Int16
    verify_only: Bool = False
    topics: tuple[AddPartitionsToTxnTopic, ...]


@message(ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), flexible_since=3)
class AddPartitionsToTxnRequest(Struct, frozen=True, kw_only=True):
    transactions: Annotated[tuple[AddPartitionsToTxnTransaction, ...], since(4)] = ()
    v3_and_below_transactional_id: Annotated[String, until(3)] = ""
    v3_and_below_producer_id: Annotated[Int64, until(3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, until(3)] = 0
    v3_and_below_topics: Annotated[tuple[AddPartitionsToTxnTopic, ...], until(3)] = ()


class AddPartitionsToTxnPartitionResult(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Struct, frozen=True, kw_only=True):
    name: String
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...]


class AddPartitionsToTxnResult(Struct, frozen=True, kw_only=True):
    transactional_id: String
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = ()


@message(ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), flexible_since=3)
class AddPartitionsToTxnResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4)] = 0
    results_by_transaction: Annotated[tuple[AddPartitionsToTxnResult, ...], since(4)] = ()
    results_by_topic_v3_and_below: Annotated[tuple[AddPartitionsToTxnTopicResult, ...], until(3)] = ()
