"""Markers: how the end of a transaction is said in each of its partitions, and never twice."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.transactions.state import TopicPartition, Transaction, TransactionState
from headrace.errors import HeadraceError
from headrace.records.control import EndTransactionMarker, MarkerType, encode_marker_batch

if TYPE_CHECKING:
    from headrace.broker.partition import Partition
    from headrace.broker.services import Services

logger = logging.getLogger(__name__)

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
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if failures:
        raise MarkersFailed(str(failures[0])) from failures[0]
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
    if producer_id not in log.producers.open_transactions:
        return
    marker = encode_marker_batch(
        EndTransactionMarker(type=kind, coordinator_epoch=COORDINATOR_EPOCH),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp_ms=services.clock.now_ms(),
    )
    try:
        await services.append_now(partition, marker)
    except (HeadraceError, OSError) as failure:
        if not partition.is_gone:
            raise MarkersFailed(f"{partition}: {failure}") from failure


async def abort_unknown(services: Services, transactions: Iterable[Transaction]) -> None:
    """Abort what is open in partitions and in no transaction, so that it holds up nobody for ever.

    A crash leaves that when a partition's data reached the disk before the record that the partition was added.
    """
    known = {
        (one.producer_id, name)
        for one in transactions
        if one.state is TransactionState.ONGOING or one.state.is_prepared
        for name in one.partitions
    }
    for partition in [*services.topics.partitions()]:
        for producer_id in [*partition.log.producers.open_transactions]:
            name = TopicPartition(partition.topic_name, partition.index)
            state = partition.log.producers.get(producer_id)
            if (producer_id, name) in known or state is None:
                continue
            logger.warning("open transaction of producer %d in %s is aborted", producer_id, partition)
            try:
                await write_marker(services, partition, MarkerType.ABORT, producer_id, state.epoch)
            except MarkersFailed as failure:
                logger.error("it can't be aborted: %s", failure)
                continue
            if partition.topic_name == OFFSETS_TOPIC:
                services.groups.end_transaction(producer_id, is_commit=False)
