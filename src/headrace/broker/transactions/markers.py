"""Markers: how the end of a transaction is said in each of its partitions, and never twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.transactions.state import EPOCH_MAX, TopicPartition, Transaction, TransactionState
from headrace.errors import HeadraceError
from headrace.records.control import EndTransactionMarker, MarkerType, encode_marker_batch

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.broker.services import Services

# There is one coordinator, which never moves.
COORDINATOR_EPOCH = 0


class MarkersFailed(HeadraceError):
    """Some partition could not take its marker."""


async def write_markers(services: Services, prepared: Transaction) -> None:
    """End a transaction in all of its partitions; returns when that is durable. May be tried again."""
    kind = MarkerType.COMMIT if prepared.state is TransactionState.PREPARE_COMMIT else MarkerType.ABORT
    # All are written before any is waited for: the partitions' fsyncs run together.
    outcomes = await asyncio.gather(
        *(
            write_marker(services, partition, kind, prepared.producer_id, prepared.producer_epoch)
            for name in sorted(prepared.partitions)
            if (partition := services.topics.partition(*name)) is not None
        ),
        return_exceptions=True,
    )
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
    if TopicPartition(OFFSETS_TOPIC, 0) in prepared.partitions:
        services.groups.end_transaction(prepared.producer_id, is_commit=kind is MarkerType.COMMIT)


async def write_marker(
    services: Services, partition: Partition, kind: MarkerType, producer_id: int, producer_epoch: int
) -> None:
    """End a producer's transaction in one partition, if it has one open there."""
    log = partition.log
    if log.read_only_reason is not None and not partition.is_gone:
        # It may have the marker in memory and not on disk: only a start can tell.
        raise MarkersFailed(f"{partition} is read-only: {log.read_only_reason}")
    try:
        if producer_id in log.producers.open_transactions:
            marker = encode_marker_batch(
                EndTransactionMarker(type=kind, coordinator_epoch=COORDINATOR_EPOCH),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                timestamp_ms=services.clock.now_ms(),
            )
            await services.append_now(partition, marker)
        elif log.durable_offset < log.end_offset and not partition.reads_unsynced:
            # An earlier attempt may have written the marker and not brought it to the disk.
            await services.flusher.flushed(partition)
    except (HeadraceError, OSError) as failure:
        if not partition.is_gone:
            raise MarkersFailed(f"{partition}: {failure}") from failure


class OpenTransaction(NamedTuple):
    """What a producer has open in a partition."""

    producer_id: int
    partition: TopicPartition

    def __str__(self) -> str:
        return f"open transaction of producer {self.producer_id} in {self.partition.topic}-{self.partition.partition}"


def unknown_transactions(
    partitions: Iterable[Partition], transactions: Iterable[Transaction]
) -> set[OpenTransaction]:
    """What is open in partitions and in no transaction, so that nothing would ever end it.

    A crash leaves that when a partition's data reached the disk before the record that the partition was added.
    """
    known = {
        OpenTransaction(one.producer_id, name)
        for one in transactions
        if one.state is TransactionState.ONGOING or one.state.is_prepared
        for name in one.partitions
    }
    found = {
        OpenTransaction(producer_id, TopicPartition(partition.topic_name, partition.index))
        for partition in partitions
        for producer_id in partition.log.producers.open_transactions
    }
    return found - known


async def abort(services: Services, unknown: OpenTransaction) -> None:
    """Abort what a producer has open in one partition, in its next epoch.

    Its own epoch would be wrong: a retry of what is aborted here would be taken for stored, and its transaction could
    be committed without it. So the producer is refused there until it has ended its transaction.
    """
    partition = services.topics.partition(*unknown.partition)
    state = None if partition is None else partition.log.producers.get(unknown.producer_id)
    if partition is None or state is None:
        return
    epoch = min(state.epoch + 1, EPOCH_MAX)
    await write_marker(services, partition, MarkerType.ABORT, unknown.producer_id, epoch)
    if partition.topic_name == OFFSETS_TOPIC:
        services.groups.end_transaction(unknown.producer_id, is_commit=False)
