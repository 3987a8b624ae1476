"""A state topic: records are loaded in the order of their append, and as durable as the settings require."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Literal

import pytest

from headrace.broker.internal_topics import INTERNAL_TOPICS
from headrace.broker.state_topic import BATCH_BYTES_MAX, KeyValue, read_state
from headrace.log.errors import StorageFailed
from headrace.records.batch import BatchHeader
from headrace.records.record import Record
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.broker.state_topics import parts_in, state_topic

NAME = "__transaction_state"
LOG = f"*/{NAME}-0/*.log"
UNDECODABLE = KeyValue(b"undecodable", b"")


class LastValues:
    """The last value of each key, and the batches of all records."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.batches: list[BatchHeader] = []
        self.is_complete = False

    def apply(self, header: BatchHeader, record: Record) -> None:
        if header not in self.batches:
            self.batches.append(header)
        assert record.key is not None
        if record.key == UNDECODABLE.key:
            raise ValueError("no such kind of record")
        if record.value is None:
            del self.values[record.key]
        else:
            self.values[record.key] = record.value

    def complete(self) -> None:
        self.is_complete = True


def damage_the_end(folder: Path) -> None:
    [segment] = folder.glob("*.log")
    data = segment.read_bytes()
    segment.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def no_failure() -> None:
    raise AssertionError("loading failed")


def test_records_are_loaded_after_a_restart(tmp_path: Path) -> None:
    async def append_and_load() -> None:
        with parts_in(tmp_path) as parts:
            topic = state_topic(parts, NAME)
            first = topic.append([KeyValue(b"a", b"1"), KeyValue(b"b", b"1")])
            second = topic.append([KeyValue(b"a", b"2"), KeyValue(b"b", None)])
            assert (first.base_offset, first.last_offset, second.base_offset) == (0, 1, 2)
        with parts_in(tmp_path) as parts:
            state = await state_topic(parts, NAME).load(LastValues, on_failure=no_failure)
            assert state is not None
            assert (state.values, state.is_complete) == ({b"a": b"2"}, True)

    asyncio.run(append_and_load())


def test_topic_is_created_by_the_first_append_with_its_own_settings(tmp_path: Path) -> None:
    async def append() -> None:
        with parts_in(tmp_path) as parts:
            topic = state_topic(parts, NAME)
            state = await topic.load(LastValues, on_failure=no_failure)
            assert state is not None
            assert (state.values, parts.topics.get(NAME)) == ({}, None)
            topic.append([KeyValue(b"a", b"1")])
            created = parts.topics.get(NAME)
            assert created is not None
            assert created.configs == INTERNAL_TOPICS[NAME]
            assert created.partition_count == 1

    asyncio.run(append())


def test_one_append_of_many_records_is_several_batches_in_their_order(tmp_path: Path) -> None:
    async def append() -> None:
        with parts_in(tmp_path) as parts:
            topic = state_topic(parts, NAME)
            topic.append([KeyValue(b"before", b"")])
            value = bytes(BATCH_BYTES_MAX // 10)
            entries = [KeyValue(str(number).encode(), value) for number in range(25)]
            appended = topic.append(entries)
            assert (appended.base_offset, appended.last_offset) == (1, 25)
            state = read_state(topic.partition.log, LastValues(), 1 << 20)
            assert [*state.values] == [b"before", *(entry.key for entry in entries)]
            assert len(state.batches) == 4

    asyncio.run(append())


def test_after_a_failure_the_caller_knows_which_records_are_in_the_log(tmp_path: Path) -> None:
    async def append() -> None:
        files = FailingFileSystem()
        with parts_in(tmp_path, files=files) as parts:
            topic = state_topic(parts, NAME)
            value = bytes(BATCH_BYTES_MAX // 2)
            entries = [KeyValue(str(number).encode(), value) for number in range(4)]
            files.fail("write", LOG, error_number=errno.ENOSPC, skip=2)
            with pytest.raises(StorageFailed):
                topic.append(entries)
            assert topic.partition.log.end_offset == 2

    asyncio.run(append())


@pytest.mark.parametrize("durability", ["os", "fsync"])
def test_append_is_as_durable_as_the_settings_require(
    tmp_path: Path, durability: Literal["os", "fsync"]
) -> None:
    async def append() -> None:
        with parts_in(tmp_path, durability=durability) as parts:
            topic = state_topic(parts, NAME)
            appended = topic.append([KeyValue(b"a", b"1")])
            assert appended.is_durable == (durability == "os")
            await topic.durable(appended)
            assert appended.is_durable
            assert topic.partition.high_watermark == 1
            assert parts.flusher.flushes == (0 if durability == "os" else 1)
            await topic.durable(appended)
            assert parts.flusher.flushes == (0 if durability == "os" else 1), "nothing is left to flush"

    asyncio.run(append())


def test_append_whose_fsync_fails_never_counts_as_durable(tmp_path: Path) -> None:
    async def append() -> None:
        files = FailingFileSystem()
        with parts_in(tmp_path, durability="fsync", files=files) as parts:
            topic = state_topic(parts, NAME)
            before = topic.append([KeyValue(b"a", b"1")])
            await topic.durable(before)
            files.fail("sync", LOG)
            appended = topic.append([KeyValue(b"a", b"2")])
            for _ in range(2):
                with pytest.raises(StorageFailed):
                    await topic.durable(appended)
            assert not appended.is_durable
            await topic.durable(before)

    asyncio.run(append())


def test_records_of_a_transaction_have_its_producer(tmp_path: Path) -> None:
    async def append() -> None:
        with parts_in(tmp_path) as parts:
            topic = state_topic(parts, NAME)
            topic.append([KeyValue(b"a", b"1")], producer_id=7, producer_epoch=2)
            topic.append([KeyValue(b"a", b"2")])
            state = read_state(topic.partition.log, LastValues(), 1 << 20)
            inside, outside = state.batches
            assert (inside.producer_id, inside.producer_epoch, inside.is_transactional) == (7, 2, True)
            assert (outside.producer_id, outside.is_transactional) == (-1, False)

    asyncio.run(append())


def test_record_that_cannot_be_decoded_is_skipped_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def load() -> None:
        with parts_in(tmp_path) as parts:
            topic = state_topic(parts, NAME)
            topic.append([KeyValue(b"a", b"1"), UNDECODABLE, KeyValue(b"b", b"1")])
            state = await topic.load(LastValues, on_failure=no_failure)
            assert state is not None
            assert state.values == {b"a": b"1", b"b": b"1"}
            assert "no such kind of record" in caplog.text

    asyncio.run(load())


def test_loading_is_retried_unless_the_log_is_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def load() -> None:
        failures: list[None] = []
        files = FailingFileSystem()
        with parts_in(tmp_path, files=files) as parts:
            topic = state_topic(parts, NAME)
            topic.append([KeyValue(b"a", b"1")])
            files.fail("read", LOG, times=2)
            state = await topic.load(LastValues, on_failure=lambda: failures.append(None))
            assert state is not None
            assert (state.values, len(failures)) == ({b"a": b"1"}, 2)
            assert caplog.text.count("its coordinator is not available") == 1
            damage_the_end(tmp_path / f"{NAME}-0")
            assert await topic.load(LastValues, on_failure=lambda: failures.append(None)) is None
            assert len(failures) == 3
            assert "headrace log repair" in caplog.text

    asyncio.run(load())


def test_old_records_are_deleted_only_when_the_others_are_on_disk(tmp_path: Path) -> None:
    async def delete() -> None:
        with parts_in(tmp_path) as parts:
            topic = state_topic(parts, NAME)
            topic.append([KeyValue(b"a", b"1")])
            topic.append([KeyValue(b"a", b"2")])
            log = topic.partition.log
            assert log.durable_offset == 0
            await topic.delete_before(1)
            assert (log.start_offset, log.durable_offset) == (1, 2)

    asyncio.run(delete())
