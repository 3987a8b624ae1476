"""Transactions in the internal topic `__transaction_state`, in Kafka's own record format."""

from __future__ import annotations

from itertools import groupby

from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.state_topic import KeyValue
from headrace.broker.transactions.state import ClientVersion, Transaction, TransactionState
from headrace.protocol.stored_transactions import (
    TRANSACTION_STATE,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from headrace.records.batch import BatchHeader
from headrace.records.record import Record

TRANSACTIONS_TOPIC = "__transaction_state"


def entry(transaction: Transaction) -> KeyValue:
    """The record of a transaction; a tombstone if it is dead."""
    key = TRANSACTION_STATE.encode_key(TransactionLogKey(transactional_id=transaction.transactional_id))
    value = None
    if transaction.state is not TransactionState.DEAD:
        value = TRANSACTION_STATE.encode_value(_stored(transaction))
    return KeyValue(key, value)


def _stored(transaction: Transaction) -> TransactionLogValue:
    by_topic = groupby(sorted(transaction.partitions), key=lambda partition: partition.topic)
    partitions = tuple(
        PartitionsSchema(topic=topic, partition_ids=tuple(entry.partition for entry in entries))
        for topic, entries in by_topic
    )
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        # As in Kafka: nothing at all before the first transaction of an instance.
        transaction_partitions=None if transaction.state is TransactionState.EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )


class StoredTransactions:
    """The last state of every transactional id in a log."""

    def __init__(self) -> None:
        self.by_id: dict[str, Transaction] = {}

    def apply(self, header: BatchHeader, record: Record) -> None:
        key = TRANSACTION_STATE.decode_key(record.key or b"")
        if key is None:
            return
        if record.value is None:
            self.by_id.pop(key.transactional_id, None)
        else:
            self.by_id[key.transactional_id] = _transaction(key.transactional_id, record.value)

    def complete(self) -> None:
        pass


def _transaction(transactional_id: str, data: bytes) -> Transaction:
    value = TRANSACTION_STATE.decode_value(TransactionLogValue, data)
    return Transaction(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            TopicPartition(entry.topic, index)
            for entry in value.transaction_partitions or ()
            for index in entry.partition_ids
        ),
        updated_ms=value.transaction_last_update_timestamp_ms,
        started_ms=value.transaction_start_timestamp_ms,
        client_version=ClientVersion.EPOCH_BUMPS
        if value.client_transaction_version >= ClientVersion.EPOCH_BUMPS
        else ClientVersion.CLASSIC,
    )
