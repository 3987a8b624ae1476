"""What a request does to a transaction: pure functions of (transaction, request, now) that return its next state.

The errors are Kafka's, and raised as RequestRejected. A function that changes nothing returns the same transaction. A
transaction that is prepared must be followed by markers in all of its partitions and then by `complete`.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.rejections import RequestRejected
from headrace.broker.transactions.state import (
    EPOCH_HANDED_OUT_MAX,
    EPOCH_MAX,
    NO_EPOCH,
    ClientVersion,
    Producer,
    Transaction,
    TransactionState,
    Trigger,
)
from headrace.protocol.error_codes import ErrorCode
from headrace.records.batch import NO_PRODUCER_ID


def init_producer(
    transaction: Transaction,
    expected: Producer | None,
    *,
    spare_producer_id: int,
    timeout_ms: int,
    now_ms: int,
) -> Transaction:
    """InitProducerId of a known id. An open transaction is fenced instead, and the client retries.

    `expected` is the id and epoch of a client that wants the next epoch for itself. `spare_producer_id` is used if no
    epochs are left.
    """
    if transaction.state.is_prepared:
        raise RequestRejected(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_retry = expected is not None and _is_bumped(transaction, expected)
    if expected is not None and expected != transaction.producer and not is_retry:
        raise RequestRejected(ErrorCode.PRODUCER_FENCED)
    held_epoch = NO_EPOCH if expected is None else expected.epoch
    if transaction.state is TransactionState.ONGOING:
        return fence(transaction, now_ms, held_epoch=held_epoch)
    if is_retry:
        return transaction.moved(Trigger.INITIALIZED, now_ms, timeout_ms=timeout_ms)
    producer = {"producer_epoch": transaction.producer_epoch + 1}
    if transaction.is_exhausted:
        producer = {
            "producer_id": spare_producer_id,
            "producer_epoch": 0,
            "previous_producer_id": transaction.producer_id,
        }
    return transaction.moved(
        Trigger.INITIALIZED,
        now_ms,
        **producer,
        previous_epoch=held_epoch,
        partitions=frozenset(),
        started_ms=-1,
        timeout_ms=timeout_ms,
    )


def _is_bumped(transaction: Transaction, expected: Producer) -> bool:
    """Whether this producer's epoch was bumped already, and it retries because the response was lost."""
    if transaction.previous_epoch == NO_EPOCH or expected.epoch != transaction.previous_epoch:
        return False
    if expected.id == transaction.producer_id:
        return expected.epoch == transaction.producer_epoch - 1
    return expected.id == transaction.previous_producer_id and expected.epoch >= EPOCH_HANDED_OUT_MAX


def _check(transaction: Transaction, producer: Producer) -> None:
    """Whether a request has the current producer id and epoch."""
    if transaction.producer_id != producer.id:
        raise RequestRejected(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != producer.epoch:
        raise RequestRejected(ErrorCode.PRODUCER_FENCED)


def add_partitions(
    transaction: Transaction,
    producer: Producer,
    partitions: Collection[TopicPartition],
    *,
    client_version: ClientVersion,
    now_ms: int,
) -> Transaction:
    """AddPartitionsToTxn, AddOffsetsToTxn, and the first write to a partition by newer clients."""
    _check(transaction, producer)
    if transaction.state.is_prepared:
        raise RequestRejected(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is TransactionState.ONGOING:
        if transaction.partitions.issuperset(partitions):
            return transaction
        added = transaction.partitions.union(partitions)
        return transaction.moved(Trigger.PARTITION_ADDED, now_ms, partitions=added)
    return transaction.moved(
        Trigger.PARTITION_ADDED,
        now_ms,
        partitions=frozenset(partitions),
        started_ms=now_ms,
        client_version=client_version,
    )


def check_partition(transaction: Transaction, producer: Producer, partition: TopicPartition) -> None:
    """Whether a write to a partition is part of an open transaction; otherwise nothing would ever end it."""
    _check(transaction, producer)
    if transaction.state.is_prepared:
        raise RequestRejected(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is not TransactionState.ONGOING or partition not in transaction.partitions:
        raise RequestRejected(ErrorCode.TRANSACTION_ABORTABLE)


def end(
    transaction: Transaction,
    producer: Producer,
    *,
    is_commit: bool,
    client_version: ClientVersion,
    spare_producer_id: int,
    now_ms: int,
) -> Transaction:
    """EndTxn. A retry of a completed request returns the same transaction."""
    bumps = client_version >= ClientVersion.EPOCH_BUMPS
    is_retry = bumps and _ended_before(transaction, producer)
    if not is_retry:
        _check(transaction, producer)
    state = transaction.state
    if state is TransactionState.ONGOING and not is_retry:
        trigger = Trigger.COMMITTED if is_commit else Trigger.ABORTED
        return _prepared(transaction, trigger, bumps, spare_producer_id, now_ms)
    if state.is_prepared:
        is_same = state.is_commit is is_commit and (is_retry or not bumps)
        code = ErrorCode.CONCURRENT_TRANSACTIONS if is_same else ErrorCode.INVALID_TXN_STATE
        raise RequestRejected(code)
    if bumps and not is_retry and not is_commit:
        # An empty transaction: there is nothing to commit, but an abort bumps the epoch as any other does.
        empty = replace(transaction, partitions=frozenset())
        return _prepared(empty, Trigger.ABORTED, bumps, spare_producer_id, now_ms)
    is_done = state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if is_done and state.is_commit is is_commit and (is_retry or not bumps):
        return transaction
    raise RequestRejected(ErrorCode.INVALID_TXN_STATE)


def _ended_before(transaction: Transaction, producer: Producer) -> bool:
    """Whether the transaction that this request would end has ended."""
    if transaction.state in (TransactionState.EMPTY, TransactionState.ONGOING):
        return False
    if producer.id == transaction.producer_id:
        return producer.epoch == transaction.producer_epoch - 1
    return producer.id == transaction.previous_producer_id and producer.epoch >= EPOCH_HANDED_OUT_MAX


def _prepared(
    transaction: Transaction, trigger: Trigger, bumps: bool, spare_producer_id: int, now_ms: int
) -> Transaction:
    if not bumps:
        return transaction.moved(trigger, now_ms)
    # The markers carry the next epoch, so that every partition rejects a late write of this one.
    return transaction.moved(
        trigger,
        now_ms,
        producer_epoch=min(transaction.producer_epoch + 1, EPOCH_MAX),
        previous_epoch=transaction.producer_epoch,
        next_producer_id=spare_producer_id if transaction.is_exhausted else NO_PRODUCER_ID,
        client_version=ClientVersion.EPOCH_BUMPS,
    )


def fence(transaction: Transaction, now_ms: int, *, held_epoch: int = NO_EPOCH) -> Transaction:
    """Abort an open transaction on behalf of the broker, and fence its producer.

    `held_epoch` is set if the producer itself requested that, and will retry to get its next epoch.
    """
    assert transaction.state is TransactionState.ONGOING, transaction.state
    return transaction.moved(
        Trigger.FENCED,
        now_ms,
        producer_epoch=min(transaction.producer_epoch + 1, EPOCH_MAX),
        previous_epoch=held_epoch,
    )


def complete(transaction: Transaction, now_ms: int) -> Transaction:
    """Every partition has its marker."""
    done = transaction.moved(Trigger.MARKED, now_ms, partitions=frozenset())
    if transaction.next_producer_id == NO_PRODUCER_ID:
        return done
    return replace(
        done,
        producer_id=transaction.next_producer_id,
        producer_epoch=0,
        previous_producer_id=transaction.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )


def is_expired(transaction: Transaction, now_ms: int, expiration_ms: int) -> bool:
    return transaction.state.is_at_rest and now_ms - transaction.updated_ms >= expiration_ms
