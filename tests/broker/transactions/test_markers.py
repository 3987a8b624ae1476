"""Markers end a transaction in each of its partitions, once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.partition import Partition
from headrace.broker.parts import Parts
from headrace.broker.transactions.markers import OpenTransaction, unknown_transactions
from headrace.broker.transactions.state import Transaction, TransactionState
from headrace.log.errors import InvalidProducerEpoch, StorageFailed
from headrace.records.record import Record, encode_batch
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.broker.requests import NOW_MS
from tests.broker.state_topics import parts_in

PRODUCER_ID, EPOCH = 5, 2
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def write(partition: Partition, sequence: int = 0) -> None:
    record = Record(offset=0, timestamp_ms=NOW_MS, key=None, value=b"x")
    batch = encode_batch(
        [record],
        producer_id=PRODUCER_ID,
        producer_epoch=EPOCH,
        base_sequence=sequence,
        is_transactional=True,
    )
    partition.append(batch, now_ms=NOW_MS)


def partitions_of(parts: Parts) -> list[Partition]:
    return list(parts.topics.create("a", 2, {}).partitions)


def transaction(state: TransactionState, *partitions: TopicPartition) -> Transaction:
    return Transaction(
        transactional_id="x",
        producer_id=PRODUCER_ID,
        producer_epoch=EPOCH,
        timeout_ms=1,
        state=state,
        partitions=frozenset(partitions),
        updated_ms=0,
    )


@pytest.mark.parametrize("is_commit", [True, False])
def test_transaction_ends_in_all_of_its_partitions_and_a_retry_appends_nothing(
    tmp_path: Path, is_commit: bool
) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path) as parts:
            partitions = partitions_of(parts)
            for partition in partitions:
                write(partition)
                assert partition.last_stable_offset == 0
            state = TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT
            prepared = transaction(state, A0, A1, TopicPartition("deleted", 0))
            for _ in range(2):
                await parts.markers.write(prepared)
                for partition in partitions:
                    assert (partition.log.end_offset, partition.last_stable_offset) == (2, 2)
                    aborted = partition.log.reader.aborted_transactions(0, 2)
                    assert [producer_id for producer_id, _ in aborted] == [PRODUCER_ID] * (not is_commit)

    asyncio.run(scenario())


def test_marker_that_is_not_durable_fails_the_whole_and_the_other_partitions_have_theirs(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        files = FailingFileSystem()
        with parts_in(tmp_path, durability="fsync", files=files) as parts:
            first, second = partitions_of(parts)
            write(first)
            write(second)
            files.fail("sync", "*/a-0/*.log")
            prepared = transaction(TransactionState.PREPARE_COMMIT, A0, A1)
            for _ in range(2):
                with pytest.raises(StorageFailed, match="a-0"):
                    await parts.markers.write(prepared)
            assert second.last_stable_offset == 2

    asyncio.run(scenario())


def test_open_transaction_is_unknown_if_no_coordinator_would_end_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path) as parts:
            partitions = partitions_of(parts)
            for partition in partitions:
                write(partition)
            known = transaction(TransactionState.ONGOING, A0)
            assert unknown_transactions(partitions, [known]) == {OpenTransaction(PRODUCER_ID, A1)}
            ended = transaction(TransactionState.COMPLETE_COMMIT, A0, A1)
            assert len(unknown_transactions(partitions, [ended])) == 2

    asyncio.run(scenario())


def test_unknown_transaction_is_aborted_and_its_producer_is_fenced(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path) as parts:
            first, _ = partitions_of(parts)
            write(first)
            await parts.markers.abort(OpenTransaction(PRODUCER_ID, A0))
            await parts.markers.abort(OpenTransaction(PRODUCER_ID, TopicPartition("deleted", 0)))
            assert first.last_stable_offset == 2
            with pytest.raises(InvalidProducerEpoch):
                write(first, sequence=1)

    asyncio.run(scenario())
