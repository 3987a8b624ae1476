"""AddPartitionsToTxn: add partitions to a transaction before it writes to them.

2: PRODUCER_FENCED instead of INVALID_PRODUCER_EPOCH. 4: several transactions in one request, or only a check whether
partitions are part of them. 5: the error TRANSACTION_ABORTABLE.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from headrace.broker.dispatch import Call, handles
from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.internal_topics import INTERNAL_TOPICS
from headrace.broker.partition import Pending
from headrace.broker.rejections import RequestRejected
from headrace.broker.transactions.state import ClientVersion, Producer
from headrace.log.errors import StorageFailed
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

FENCED_SINCE = 2
BATCHED_SINCE = 4
ABORTABLE_SINCE = 5

Results = tuple[AddPartitionsToTxnTopicResult, ...]


@handles(ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5))
async def add_partitions_to_txn(request: AddPartitionsToTxnRequest, call: Call) -> AddPartitionsToTxnResponse:
    if call.version < BATCHED_SINCE:
        alone = AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _add(alone, call))
    results = await asyncio.gather(*(_add(one, call) for one in request.transactions))
    return AddPartitionsToTxnResponse(
        results_by_transaction=tuple(
            AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=topics)
            for one, topics in zip(request.transactions, results, strict=True)
        )
    )


async def _add(wanted: AddPartitionsToTxnTransaction, call: Call) -> Results:
    transactions = call.parts.transactions
    producer = Producer(id=wanted.producer_id, epoch=wanted.producer_epoch)
    if wanted.verify_only:
        return _results(wanted.topics, lambda name: _verified(wanted, producer, name, call))
    names = [TopicPartition(topic.name, index) for topic in wanted.topics for index in topic.partitions]
    codes = {name: code for name in names if (code := _rejection(name, call)) is not None}
    if codes:
        return _results(wanted.topics, lambda name: codes.get(name, ErrorCode.OPERATION_NOT_ATTEMPTED))
    code = ErrorCode.NONE
    try:
        with fencing_as_known(call, since=FENCED_SINCE):
            added = transactions.add_partitions(
                wanted.transactional_id, producer, names, ClientVersion.CLASSIC
            )
            await when_durable(added, call)
    except RequestRejected as rejected:
        code = rejected.code
    return _results(wanted.topics, lambda name: code)


def _rejection(name: TopicPartition, call: Call) -> ErrorCode | None:
    if name.topic in INTERNAL_TOPICS:
        # As in Kafka. The coordinator would read a marker in a state topic as state.
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if call.parts.topics.partition(*name) is None else None


async def when_durable(added: Pending | None, call: Call) -> None:
    """Wait until the added partitions are durable."""
    if added is None:
        return
    try:
        await call.parts.flusher.durable(added)
    except StorageFailed as failure:
        raise RequestRejected(ErrorCode.COORDINATOR_NOT_AVAILABLE) from failure


@contextmanager
def fencing_as_known(call: Call, *, since: int) -> Iterator[None]:
    """Reject clients before version `since` with an error that they know instead of PRODUCER_FENCED."""
    try:
        yield
    except RequestRejected as rejected:
        if rejected.code is ErrorCode.PRODUCER_FENCED and call.version < since:
            raise RequestRejected(ErrorCode.INVALID_PRODUCER_EPOCH) from rejected
        raise


def _verified(
    wanted: AddPartitionsToTxnTransaction, producer: Producer, name: TopicPartition, call: Call
) -> ErrorCode:
    try:
        call.parts.transactions.check_partition(wanted.transactional_id, producer, name)
    except RequestRejected as rejected:
        if rejected.code is ErrorCode.TRANSACTION_ABORTABLE and call.version < ABORTABLE_SINCE:
            return ErrorCode.INVALID_TXN_STATE
        return rejected.code
    return ErrorCode.NONE


def _results(
    topics: Iterable[AddPartitionsToTxnTopic], code_of: Callable[[TopicPartition], ErrorCode]
) -> Results:
    return tuple(
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=code_of(TopicPartition(topic.name, index))
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )
