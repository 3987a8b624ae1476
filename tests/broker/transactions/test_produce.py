"""The check of Produce: a transactional batch belongs to an open transaction, or starts one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.parts import Parts
from headrace.broker.rejections import RequestRejected
from headrace.broker.transactions.produce import (
    ABORTABLE_SINCE,
    ADDS_SINCE,
    enter_transaction,
    is_transactional,
)
from headrace.broker.transactions.state import ClientVersion, Producer
from headrace.protocol.error_codes import ErrorCode
from headrace.records.record import Record, encode_batch
from tests.broker.observing import eventually
from tests.broker.requests import NOW_MS
from tests.broker.state_topics import parts_in

RECORD = Record(offset=0, timestamp_ms=NOW_MS, key=None, value=b"x")
A0 = TopicPartition("a", 0)


def batch(producer: Producer) -> bytes:
    return encode_batch(
        [RECORD],
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        base_sequence=0,
        is_transactional=True,
    )


@asynccontextmanager
async def loaded(folder: Path) -> AsyncIterator[tuple[Parts, Producer]]:
    """A broker with a topic, and the producer of the transactional id "x"."""
    with parts_in(folder) as parts:
        parts.topics.create("a", 1, {})
        parts.groups.load()
        parts.transactions.load()
        await asyncio.to_thread(
            eventually, lambda: parts.transactions.unavailable is None, "transactions are loaded"
        )
        producer = await parts.transactions.init_producer("x", timeout_ms=1_000, expected=None)
        try:
            yield parts, producer
        finally:
            parts.transactions.close()
            parts.groups.close()


def enter(parts: Parts, producer: Producer, version: int, transactional_id: str | None = "x") -> bool:
    """Whether the batch is admitted and has added its partition."""
    partition = parts.topics.partition(*A0)
    assert partition is not None
    added = enter_transaction(transactional_id, batch(producer), partition, parts.transactions, version)
    return added is not None


def rejected(parts: Parts, producer: Producer, version: int, transactional_id: str | None = "x") -> ErrorCode:
    with pytest.raises(RequestRejected) as rejection:
        enter(parts, producer, version, transactional_id)
    return rejection.value.code


def test_batch_without_a_transaction_is_recognized() -> None:
    assert is_transactional(batch(Producer(id=1, epoch=0)))
    assert not is_transactional(encode_batch([RECORD]))
    assert not is_transactional(b"too short")


def test_first_write_starts_the_transaction_from_version_12_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path) as (parts, producer):
            assert rejected(parts, producer, ADDS_SINCE - 1) is ErrorCode.TRANSACTION_ABORTABLE
            assert rejected(parts, producer, ABORTABLE_SINCE - 1) is ErrorCode.INVALID_TXN_STATE
            assert enter(parts, producer, ADDS_SINCE)
            transaction = parts.transactions.transaction("x")
            assert transaction is not None
            assert transaction.partitions == {A0}

    asyncio.run(scenario())


def test_older_client_adds_the_partition_before_it_writes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path) as (parts, producer):
            parts.transactions.add_partitions("x", producer, [A0], ClientVersion.CLASSIC)
            assert not enter(parts, producer, ADDS_SINCE - 1)
            stale = Producer(id=producer.id, epoch=producer.epoch - 1)
            assert rejected(parts, stale, ADDS_SINCE - 1) is ErrorCode.INVALID_PRODUCER_EPOCH

    asyncio.run(scenario())


def test_batch_without_the_id_of_its_transaction_is_rejected(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path) as (parts, producer):
            assert rejected(parts, producer, ADDS_SINCE, None) is ErrorCode.INVALID_TXN_STATE

    asyncio.run(scenario())


def test_client_retries_while_the_coordinator_is_unavailable(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with loaded(tmp_path) as (parts, producer):
            parts.transactions.close()
            for version in (ADDS_SINCE - 1, ADDS_SINCE):
                assert rejected(parts, producer, version) is ErrorCode.NOT_ENOUGH_REPLICAS

    asyncio.run(scenario())
