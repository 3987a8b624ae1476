"""ListTransactions: the transactions that a broker coordinates.

1: only those that have been open for longer than a duration.
2: only those whose id matches a regular expression.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Int16, Int32, Int64, NullableString, String, message, since


@message(ApiKey.LIST_TRANSACTIONS, versions=(0, 2), flexible_since=0)
class ListTransactionsRequest(Struct, frozen=True, kw_only=True):
    """An empty filter, a negative duration (in milliseconds) and no pattern let everything through."""

    state_filters: tuple[String, ...] = ()
    producer_id_filters: tuple[Int64, ...] = ()
    duration_filter: Annotated[Int64, since(1)] = -1
    transactional_id_pattern: Annotated[NullableString, since(2)] = None


class TransactionState(Struct, frozen=True, kw_only=True):
    transactional_id: String
    producer_id: Int64
    transaction_state: String


@message(ApiKey.LIST_TRANSACTIONS, versions=(0, 2), flexible_since=0)
class ListTransactionsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: tuple[String, ...] = ()
    transaction_states: tuple[TransactionState, ...] = ()
