"""DescribeTransactions: the state of transactions, by transactional id."""

from __future__ import annotations

from itertools import groupby

from headrace.broker.dispatch import Call, handles
from headrace.broker.rejections import RequestRejected
from headrace.broker.turns import in_turns
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)


@handles(ApiKey.DESCRIBE_TRANSACTIONS, versions=(0, 0), is_long=True)
async def describe_transactions(
    request: DescribeTransactionsRequest, call: Call
) -> DescribeTransactionsResponse:
    described = await in_turns(request.transactional_ids, lambda name: _describe(name, call))
    return DescribeTransactionsResponse(transaction_states=tuple(described))


def _describe(transactional_id: str, call: Call) -> TransactionState:
    if not transactional_id:
        return TransactionState(transactional_id="", error_code=ErrorCode.INVALID_REQUEST)
    try:
        transaction = call.parts.transactions.transaction(transactional_id)
    except RequestRejected as rejected:
        return TransactionState(transactional_id=transactional_id, error_code=rejected.code)
    if transaction is None:
        return TransactionState(
            transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
    by_topic = groupby(sorted(transaction.partitions), key=lambda partition: partition.topic)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.display_name,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.started_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=tuple(
            TopicData(topic=topic, partitions=tuple(entry.partition for entry in entries))
            for topic, entries in by_topic
        ),
    )
