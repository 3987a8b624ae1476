"""The check of Produce before it appends a transactional batch: the batch must belong to an open transaction.

From version 12 on (KIP-890) the first write to a partition adds it to the transaction; before, clients send
AddPartitionsToTxn.
"""

from __future__ import annotations

from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.partition import Partition, Pending
from headrace.broker.rejections import RequestRejected
from headrace.broker.transactions.coordinator import TransactionCoordinator
from headrace.broker.transactions.state import ClientVersion, Producer
from headrace.protocol.error_codes import ErrorCode
from headrace.records.batch import ATTRIBUTES_POSITION, TRANSACTIONAL_BIT, Buffer, read_header

ABORTABLE_SINCE = 11
ADDS_SINCE = 12

# Errors that older clients would not retry; they retry NOT_ENOUGH_REPLICAS.
_RETRIABLE = frozenset(
    (
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)


def is_transactional(batch: Buffer) -> bool:
    # The attributes are two bytes; the bit is in the second.
    return len(batch) > ATTRIBUTES_POSITION + 1 and bool(batch[ATTRIBUTES_POSITION + 1] & TRANSACTIONAL_BIT)


def enter_transaction(
    transactional_id: str | None,
    batch: Buffer,
    partition: Partition,
    transactions: TransactionCoordinator,
    version: int,
) -> Pending | None:
    """Raise RequestRejected unless the batch is part of an open transaction, or starts one.

    Returns what has to be durable before the batch may be acknowledged, if anything was added to the transaction.
    """
    if not is_transactional(batch):
        return None
    header = read_header(batch)
    producer = Producer(id=header.producer_id, epoch=header.producer_epoch)
    name = TopicPartition(partition.topic_name, partition.index)
    if transactional_id is None:
        # As in Kafka: without the id the transaction is unknown.
        raise RequestRejected(ErrorCode.INVALID_TXN_STATE)
    try:
        if version < ADDS_SINCE:
            transactions.check_partition(transactional_id, producer, name)
            return None
        return transactions.add_partitions(transactional_id, producer, [name], ClientVersion.EPOCH_BUMPS)
    except RequestRejected as rejected:
        raise RequestRejected(_code_for(rejected.code, version)) from rejected


def _code_for(code: ErrorCode, version: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if code in _RETRIABLE and not (version >= ADDS_SINCE and code is ErrorCode.CONCURRENT_TRANSACTIONS):
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code
