"""Markers: the records that end a transaction in each of its partitions, once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from headrace.broker.flusher import Flusher
from headrace.broker.groups.group_offsets import GroupOffsets
from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.partition import Partition
from headrace.broker.topics import Topics
from headrace.broker.transactions.state import EPOCH_MAX, Transaction, TransactionState
from headrace.clock import Clock
from headrace.errors import HeadraceError
from headrace.log.errors import StorageFailed
from headrace.records.control import EndTransactionMarker, MarkerType, encode_marker_batch

# There is one coordinator, which never moves.
COORDINATOR_EPOCH = 0


class Markers:
    def __init__(self, clock: Clock, topics: Topics, flusher: Flusher, offsets: GroupOffsets) -> None:
        self._clock = clock
        self._topics = topics
        self._flusher = flusher
        self._offsets = offsets

    async def write(self, prepared: Transaction) -> None:
        """End a transaction in all of its partitions; returns when that is durable, and may be called again.

        Raises StorageFailed if a partition can't append its marker."""
        kind = MarkerType.COMMIT if prepared.state is TransactionState.PREPARE_COMMIT else MarkerType.ABORT
        # All are appended before the first flush is waited for, so that the partitions' fsyncs run together.
        outcomes = await asyncio.gather(
            *(
                self._write(partition, kind, prepared.producer_id, prepared.producer_epoch)
                for name in sorted(prepared.partitions)
                if (partition := self._topics.partition(*name)) is not None
            ),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        if TopicPartition(OFFSETS_TOPIC, 0) in prepared.partitions:
            self._offsets.end_transaction(prepared.producer_id, is_commit=kind is MarkerType.COMMIT)

    async def write_one(
        self, partition: Partition, kind: MarkerType, producer_id: int, producer_epoch: int
    ) -> None:
        """End a producer's transaction in one partition, if it has one open there."""
        await self._write(partition, kind, producer_id, producer_epoch)
        if partition.topic_name == OFFSETS_TOPIC:
            self._offsets.end_transaction(producer_id, is_commit=kind is MarkerType.COMMIT)

    async def abort(self, unknown: OpenTransaction) -> None:
        """Abort what a producer has open in one partition, in its next epoch.

        Its own epoch would be wrong: a retry of an aborted batch would look like a duplicate of a stored one, and the
        transaction could be committed without it. So the partition rejects the producer until it has ended its
        transaction.
        """
        partition = self._topics.partition(*unknown.partition)
        state = None if partition is None else partition.log.producers.by_id.get(unknown.producer_id)
        if partition is not None and state is not None:
            epoch = min(state.epoch + 1, EPOCH_MAX)
            await self.write_one(partition, MarkerType.ABORT, unknown.producer_id, epoch)

    async def _write(
        self, partition: Partition, kind: MarkerType, producer_id: int, producer_epoch: int
    ) -> None:
        log = partition.log
        if log.read_only_reason is not None and not partition.is_deleted:
            # The marker may be in memory and not on disk: only a restart finds out.
            raise StorageFailed(f"{partition} is read-only: {log.read_only_reason}")
        try:
            if producer_id in log.producers.open_transactions:
                marker = encode_marker_batch(
                    EndTransactionMarker(type=kind, coordinator_epoch=COORDINATOR_EPOCH),
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    timestamp_ms=self._clock.now_ms(),
                )
                pending = partition.append(marker, now_ms=self._clock.now_ms(), from_client=False)
            else:
                # An earlier attempt may have appended the marker without flushing it.
                pending = partition.pending()
            await self._flusher.durable(pending)
        except (HeadraceError, OSError) as failure:
            if not partition.is_deleted:
                raise StorageFailed(f"{partition}: {failure}") from failure


class OpenTransaction(Struct, frozen=True):
    """An open transaction of a producer in one partition."""

    producer_id: int
    partition: TopicPartition

    def __str__(self) -> str:
        return f"open transaction of producer {self.producer_id} in {self.partition.topic}-{self.partition.partition}"


def unknown_transactions(
    partitions: Iterable[Partition], transactions: Iterable[Transaction]
) -> set[OpenTransaction]:
    """Transactions that are open in partitions and unknown to the coordinator, so that nothing would ever end them.

    A crash leaves one if data reached the disk before the record that adds its partition to the transaction.
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
