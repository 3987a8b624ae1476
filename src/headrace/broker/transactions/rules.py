"""What a request does to a transaction: pure functions of (transaction, request, now) that return an outcome.

The answers are Kafka's. An outcome without a transaction changes nothing; one whose transaction is prepared must be
followed by markers in all of its partitions and then by `complete`.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct
from msgspec.structs import replace

from headrace.broker.transactions.state import (
    EPOCH_HANDED_OUT_MAX,
    EPOCH_MAX,
    NO_EPOCH,
    NO_PRODUCER_ID,
    ClientVersion,
    Producer,
    TopicPartition,
    Transaction,
    TransactionState,
    Trigger,
)
from headrace.protocol.error_codes import ErrorCode


class Outcome(Struct, frozen=True, kw_only=True):
    error: ErrorCode = ErrorCode.NONE
    transaction: Transaction | None = None
    """The new state, to be stored; None if nothing changes."""


def refused(error: ErrorCode) -> Outcome:
    return Outcome(error=error)


def begin_producer(transactional_id: str, producer_id: int, *, timeout_ms: int, now_ms: int) -> Outcome:
    """The first InitProducerId of an id."""
    fresh = Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
    )
    return Outcome(transaction=fresh)


def init_producer(
    transaction: Transaction,
    expected: Producer | None,
    *,
    spare_producer_id: int,
    timeout_ms: int,
    now_ms: int,
) -> Outcome:
    """InitProducerId of a known id. An open transaction is aborted first, and the client retries.

    `expected` is the id and epoch of a client that wants the next epoch for itself. `spare_producer_id` is used if no
    epochs are left.
    """
    if transaction.state.is_prepared:
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and not _may_init(transaction, expected):
        return refused(ErrorCode.PRODUCER_FENCED)
    if transaction.state is TransactionState.ONGOING:
        held_epoch = NO_EPOCH if expected is None else expected.epoch
        fenced = fence(transaction, now_ms, held_epoch=held_epoch)
        return replace(fenced, error=ErrorCode.CONCURRENT_TRANSACTIONS)
    if expected is not None and _was_answered(transaction, expected):
        return Outcome(transaction=transaction.moved(Trigger.INITIALIZED, now_ms, timeout_ms=timeout_ms))
    if transaction.is_exhausted:
        return Outcome(
            transaction=transaction.moved(
                Trigger.INITIALIZED,
                now_ms,
                producer_id=spare_producer_id,
                producer_epoch=0,
                previous_epoch=NO_EPOCH if expected is None else expected.epoch,
                previous_producer_id=transaction.producer_id,
                partitions=frozenset(),
                started_ms=-1,
                timeout_ms=timeout_ms,
            )
        )
    return Outcome(
        transaction=transaction.moved(
            Trigger.INITIALIZED,
            now_ms,
            producer_epoch=transaction.producer_epoch + 1,
            previous_epoch=NO_EPOCH if expected is None else expected.epoch,
            partitions=frozenset(),
            started_ms=-1,
            timeout_ms=timeout_ms,
        )
    )


def _may_init(transaction: Transaction, expected: Producer) -> bool:
    return expected == transaction.producer or _was_answered(transaction, expected)


def _was_answered(transaction: Transaction, expected: Producer) -> bool:
    """Whether this producer's epoch was bumped already, and it retries because the answer was lost."""
    if transaction.previous_epoch == NO_EPOCH or expected.epoch != transaction.previous_epoch:
        return False
    if expected.id == transaction.producer_id:
        return expected.epoch == transaction.producer_epoch - 1
    return expected.id == transaction.previous_producer_id and expected.epoch >= EPOCH_HANDED_OUT_MAX


def check_producer(transaction: Transaction | None, producer: Producer) -> ErrorCode:
    """Whether a request has the current producer id and epoch."""
    if transaction is None or transaction.producer_id != producer.id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if transaction.producer_epoch != producer.epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def add_partitions(
    transaction: Transaction | None,
    producer: Producer,
    partitions: Collection[TopicPartition],
    *,
    client_version: ClientVersion,
    now_ms: int,
) -> Outcome:
    """AddPartitionsToTxn, AddOffsetsToTxn, and the first write to a partition by newer clients."""
    error = check_producer(transaction, producer)
    if error or transaction is None:
        return refused(error)
    if transaction.state.is_prepared:
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS)
    if transaction.state is TransactionState.ONGOING:
        if transaction.partitions.issuperset(partitions):
            return Outcome()
        added = transaction.partitions.union(partitions)
        return Outcome(transaction=transaction.moved(Trigger.PARTITION_ADDED, now_ms, partitions=added))
    return Outcome(
        transaction=transaction.moved(
            Trigger.PARTITION_ADDED,
            now_ms,
            partitions=frozenset(partitions),
            started_ms=now_ms,
            client_version=client_version,
        )
    )


def check_partition(
    transaction: Transaction | None, producer: Producer, partition: TopicPartition
) -> ErrorCode:
    """Whether a write to a partition is part of an open transaction; otherwise nothing would ever end it."""
    error = check_producer(transaction, producer)
    if error or transaction is None:
        return error
    if transaction.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if transaction.state is not TransactionState.ONGOING or partition not in transaction.partitions:
        return ErrorCode.TRANSACTION_ABORTABLE
    return ErrorCode.NONE


def end(
    transaction: Transaction | None,
    producer: Producer,
    *,
    is_commit: bool,
    client_version: ClientVersion,
    spare_producer_id: int,
    now_ms: int,
) -> Outcome:
    """EndTxn. An outcome without error and transaction answers a retry of a completed request."""
    if transaction is None:
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    bumps = client_version >= ClientVersion.EPOCH_BUMPS
    is_retry = bumps and _ended_before(transaction, producer)
    if not is_retry:
        error = check_producer(transaction, producer)
        if error:
            return refused(error)
    state = transaction.state
    if state is TransactionState.ONGOING and not is_retry:
        trigger = Trigger.COMMITTED if is_commit else Trigger.ABORTED
        return Outcome(transaction=_prepared(transaction, trigger, bumps, spare_producer_id, now_ms))
    if state.is_prepared:
        is_same = state.is_commit is is_commit and (is_retry or not bumps)
        return refused(ErrorCode.CONCURRENT_TRANSACTIONS if is_same else ErrorCode.INVALID_TXN_STATE)
    if bumps and not is_retry:
        # An empty transaction: there is nothing to commit, but an abort bumps the epoch as any other does.
        if is_commit:
            return refused(ErrorCode.INVALID_TXN_STATE)
        return Outcome(
            transaction=_prepared(
                replace(transaction, partitions=frozenset()),
                Trigger.ABORTED,
                bumps,
                spare_producer_id,
                now_ms,
            )
        )
    is_done = state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    if is_done and state.is_commit is is_commit:
        return Outcome()
    return refused(ErrorCode.INVALID_TXN_STATE)


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
    is_exhausted = transaction.is_exhausted
    return transaction.moved(
        trigger,
        now_ms,
        producer_epoch=min(transaction.producer_epoch + 1, EPOCH_MAX),
        previous_epoch=transaction.producer_epoch,
        next_producer_id=spare_producer_id if is_exhausted else NO_PRODUCER_ID,
        client_version=ClientVersion.EPOCH_BUMPS,
    )


def fence(transaction: Transaction, now_ms: int, *, held_epoch: int = NO_EPOCH) -> Outcome:
    """Abort an open transaction on behalf of the broker, and fence its producer.

    `held_epoch` is set if the producer itself asked for that, and will retry to get its next epoch.
    """
    assert transaction.state is TransactionState.ONGOING, transaction.state
    return Outcome(
        transaction=transaction.moved(
            Trigger.FENCED,
            now_ms,
            producer_epoch=min(transaction.producer_epoch + 1, EPOCH_MAX),
            previous_epoch=held_epoch,
        )
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


def is_timed_out(transaction: Transaction, now_ms: int) -> bool:
    return (
        transaction.state is TransactionState.ONGOING
        and now_ms - transaction.started_ms >= transaction.timeout_ms
    )


def expire(transaction: Transaction, now_ms: int) -> Transaction:
    return transaction.moved(Trigger.EXPIRED, now_ms)


def is_expired(transaction: Transaction, now_ms: int, expiration_ms: int) -> bool:
    return transaction.state.is_at_rest and now_ms - transaction.updated_ms >= expiration_ms
