"""Transactions in the internal topic `__transaction_state`, in Kafka's own record format."""

from __future__ import annotations

import logging
from itertools import groupby
from typing import TYPE_CHECKING

from headrace.broker.stored_batches import batches_in
from headrace.broker.transactions.state import (
    ClientVersion,
    TopicPartition,
    Transaction,
    TransactionState,
)
from headrace.protocol.primitives import MalformedMessage
from headrace.protocol.stored_transactions import (
    TRANSACTION_STATE,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from headrace.records.record import Record, encode_batch, iterate_records

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

TRANSACTIONS_TOPIC = "__transaction_state"


def encode(transaction: Transaction) -> bytes:
    """The batch that stores a transaction; one that is dead is removed."""
    key = TRANSACTION_STATE.encode_key(TransactionLogKey(transactional_id=transaction.transactional_id))
    value = None
    if transaction.state is not TransactionState.DEAD:
        value = TRANSACTION_STATE.encode_value(_stored(transaction))
    return encode_batch([Record(offset=0, timestamp_ms=transaction.updated_ms, key=key, value=value)])


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


def read_transactions(log: PartitionLog, *, batch_bytes_max: int) -> dict[str, Transaction]:
    """Read a whole log, from a thread that may wait for the disk; raises where it is damaged."""
    found: dict[str, Transaction] = {}
    records = (
        record for _, batch in batches_in(log) for record in iterate_records(batch, bytes_max=batch_bytes_max)
    )
    for record in records:
        try:
            _replay(found, record)
        except (MalformedMessage, ValueError) as error:
            logger.error(
                "record of %s skipped: %s", TRANSACTIONS_TOPIC, error, extra={"log_offset": record.offset}
            )
    return found


def _replay(found: dict[str, Transaction], record: Record) -> None:
    key = TRANSACTION_STATE.decode_key(record.key or b"")
    if key is None:
        return
    if record.value is None:
        found.pop(key.transactional_id, None)
        return
    value = TRANSACTION_STATE.decode_value(TransactionLogValue, record.value)
    found[key.transactional_id] = Transaction(
        transactional_id=key.transactional_id,
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
