"""Group commit: requests share an fsync, and one that failed is never tried again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.broker.partition import Partition
from headrace.broker.parts import Parts
from headrace.log.errors import StorageFailed
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.broker.requests import NOW_MS, batch
from tests.broker.state_topics import parts_in


def partition_of(parts: Parts) -> Partition:
    return parts.topics.create("a", 1, {}).partitions[0]


def test_requests_that_arrive_during_an_fsync_share_the_next_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path, durability="fsync") as parts:
            partition = partition_of(parts)
            waiting = [
                parts.flusher.durable(partition.append(batch(b"x"), now_ms=NOW_MS)) for _ in range(100)
            ]
            await asyncio.gather(*waiting)
            assert (partition.high_watermark, parts.flusher.flushes) == (100, 2)
            await parts.flusher.durable(partition.pending())
            assert parts.flusher.flushes == 2, "it is durable already"

    asyncio.run(scenario())


def test_failed_fsync_fails_all_requests_that_wait_and_later_ones(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = FailingFileSystem()
        with parts_in(tmp_path, durability="fsync", files=files) as parts:
            partition = partition_of(parts)
            files.fail("sync", "*/a-0/*.log")
            waiting = [parts.flusher.durable(partition.append(batch(b"x"), now_ms=NOW_MS)) for _ in range(2)]
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [StorageFailed, StorageFailed]
            syncs = [path for operation, path in files.operations if operation == "sync"]
            with pytest.raises(StorageFailed, match="read-only"):
                await parts.flusher.flushed(partition)
            assert [path for operation, path in files.operations if operation == "sync"] == syncs
            assert (partition.high_watermark, parts.flusher.flushes) == (0, 0)

    asyncio.run(scenario())


def test_records_without_a_waiting_request_become_readable(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path, durability="fsync") as parts:
            partition = partition_of(parts)
            parts.flusher.flush_soon(partition.append(batch(b"x"), now_ms=NOW_MS))
            assert partition.high_watermark == 0
            await parts.flusher.flushed(partition)
            assert partition.high_watermark == 1

    asyncio.run(scenario())


def test_request_that_fails_after_an_fsync_does_not_affect_the_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path, durability="fsync") as parts:
            partition = partition_of(parts)

            def fails(error: BaseException | None) -> None:
                raise ValueError("a bug")

            partition.append(batch(b"x"), now_ms=NOW_MS)
            parts.flusher.when_flushed(partition, fails)
            parts.flusher.when_flushed(partition, fails)
            await parts.flusher.flushed(partition)
            assert (partition.high_watermark, parts.runtime.failures.count) == (1, 2)

    asyncio.run(scenario())


def test_flush_after_the_stop_is_cancelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        with parts_in(tmp_path, durability="fsync") as parts:
            pending = partition_of(parts).append(batch(b"x"), now_ms=NOW_MS)
            parts.flusher.close()
            assert parts.flusher.durable(pending).cancelled()

    asyncio.run(scenario())
