"""ListTransactions: transactional ids, filtered by state, producer, duration or pattern."""

from __future__ import annotations

import re

from headrace.broker.dispatch import Call, handles
from headrace.broker.rejections import RequestRejected
from headrace.broker.transactions.state import Transaction, TransactionState
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import list_transactions as messages
from headrace.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


@handles(ApiKey.LIST_TRANSACTIONS, versions=(0, 2))
def list_transactions(request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse:
    transactions = call.parts.transactions.transactions()
    try:
        pattern = re.compile(request.transactional_id_pattern or "")
    except re.error as error:
        raise RequestRejected(ErrorCode.INVALID_REGULAR_EXPRESSION) from error
    known = {state.display_name for state in TransactionState}
    now_ms = call.parts.runtime.clock.now_ms()
    return ListTransactionsResponse(
        unknown_state_filters=tuple(name for name in request.state_filters if name not in known),
        transaction_states=tuple(
            messages.TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.display_name,
            )
            for one in transactions
            if _is_wanted(one, request, pattern, now_ms)
        ),
    )


def _is_wanted(
    transaction: Transaction, request: ListTransactionsRequest, pattern: re.Pattern[str], now_ms: int
) -> bool:
    if request.state_filters and transaction.state.display_name not in request.state_filters:
        return False
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.duration_filter >= 0:
        is_open = transaction.state is TransactionState.ONGOING or transaction.state.is_prepared
        if not is_open or now_ms - transaction.started_ms <= request.duration_filter:
            return False
    return not request.transactional_id_pattern or bool(pattern.fullmatch(transaction.transactional_id))
