"""DescribeTransactions: the state of transactions, by transactional id."""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, Int64, String, message


@message(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible_since=0)
class DescribeTransactionsRequest(Struct, frozen=True, kw_only=True):
    transactional_ids: tuple[String, ...]


class TopicData(Struct, frozen=True, kw_only=True):
    topic: String
    partitions: tuple[Int32, ...]


class TransactionState(Struct, frozen=True, kw_only=True):
    """Once a transaction ends, `topics` has only the partitions whose markers are still to be written."""

    error_code: Int16 = 0
    transactional_id: String
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = -1
    producer_id: Int64 = -1
    producer_epoch: Int16 = -1
    topics: tuple[TopicData, ...] = ()


@message(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible_since=0)
class DescribeTransactionsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    transaction_states: tuple[TransactionState, ...]
