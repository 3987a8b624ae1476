"""DescribeTransactions: where transactions stand, by transactional id."""

from __future__ import annotations

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, Int64, String, message
from headrace.values import value


@message(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), flexible_since=0)
class DescribeTransactionsRequest:
    transactional_ids: tuple[String, ...]


@value
class TopicData:
    topic: String
    partitions: tuple[Int32, ...]


@value
class TransactionState:
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
class DescribeTransactionsResponse:
    throttle_time_ms: Int32 = 0
    transaction_states: tuple[TransactionState, ...]
