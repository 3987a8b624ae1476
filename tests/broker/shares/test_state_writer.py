"""States of share groups are written together, retried after a failure, and old records are deleted."""

from __future__ import annotations

import asyncio
import errno
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.broker.configs.share_rules import Rules
from headrace.broker.shares import state_writer
from headrace.broker.shares.state_writer import StateWriter
from headrace.broker.shares.storage import STATE_TOPIC, ShareKey, StoredWindow
from headrace.broker.shares.window import Acknowledgement, AcknowledgeType, DeadRecords, LogBatch, Window
from headrace.broker.stored_batches import batches_in
from headrace.log.errors import StorageFailed
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.broker.shares.windows import KEY, contents, read_windows, work
from tests.broker.state_topics import parts_in, state_topic


def test_many_changes_share_one_write(tmp_path: Path) -> None:
    async def write() -> None:
        with parts_in(tmp_path) as parts:
            topic = state_topic(parts, STATE_TOPIC)
            writer = StateWriter(parts.runtime, topic, on_dead=lambda stored, dead: None)
            windows = [StoredWindow(ShareKey("g", uuid.UUID(int=7), index), Window(0)) for index in range(50)]
            waiting = []
            for stored in windows:
                for _ in range(10):
                    work(stored.window, stored.window.end_offset)
                    waiting.append(writer.written(stored))
            await asyncio.gather(*waiting)
            assert len([*batches_in(topic.partition.log)]) == 1
            assert len(read_windows(topic)) == 50

    asyncio.run(write())


def test_prune_deletes_old_records_and_keeps_every_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One busy window, and one that was written long ago and never again."""
    monkeypatch.setattr(state_writer, "PRUNED_RECORDS_MIN", 1000)

    async def write() -> None:
        with parts_in(tmp_path) as parts:
            topic = state_topic(parts, STATE_TOPIC)
            writer = StateWriter(parts.runtime, topic, on_dead=lambda stored, dead: None)
            idle, busy = (
                StoredWindow(ShareKey("idle", KEY.topic_id, 0), Window(5)),
                StoredWindow(KEY, Window(0)),
            )
            await writer.written(idle)
            log = topic.partition.log
            for _ in range(2):
                for _ in range(1200):
                    work(busy.window, busy.window.end_offset)
                    await writer.written(busy)
                await writer.prune([idle, busy])
                await writer.written(idle)
            await writer.prune([idle, busy])
            assert log.start_offset > 0
            assert log.end_offset - log.start_offset < 1500
            found = read_windows(topic)
            assert contents(found[idle.key].window) == (5, [])
            assert contents(found[busy.key].window) == contents(busy.window)

    asyncio.run(write())


def test_state_that_could_not_be_written_is_written_with_the_next_one(tmp_path: Path) -> None:
    async def write() -> None:
        files = FailingFileSystem()
        with parts_in(tmp_path, files=files) as parts:
            topic = state_topic(parts, STATE_TOPIC)
            writer = StateWriter(parts.runtime, topic, on_dead=lambda stored, dead: None)
            first, second = (StoredWindow(ShareKey("g", KEY.topic_id, index), Window(0)) for index in (0, 1))
            await writer.written(second)
            work(first.window, 0)
            files.fail("write", f"*/{STATE_TOPIC}-0/*.log", error_number=errno.ENOSPC)
            with pytest.raises(StorageFailed):
                await writer.written(first)
            assert {*read_windows(topic)} == {second.key}
            work(second.window, 0)
            await writer.written(second)
            found = read_windows(topic)
            assert contents(found[first.key].window) == contents(first.window)
            assert contents(found[second.key].window) == contents(second.window)
            writer.close()

    asyncio.run(write())


def test_dead_records_are_reported_when_their_state_is_durable(tmp_path: Path) -> None:
    async def write() -> None:
        with parts_in(tmp_path) as parts:
            topic = state_topic(parts, STATE_TOPIC)
            written: list[tuple[StoredWindow, Sequence[DeadRecords]]] = []
            writer = StateWriter(parts.runtime, topic, on_dead=lambda *dead: written.append(dead))
            stored = StoredWindow(KEY, Window(0))
            rules = Rules(has_dead_letters=True)
            stored.window.acquire([LogBatch(0, 1)], member_id="m", now_ms=0, rules=rules, records_max=9)
            rejected = Acknowledgement(0, 0, AcknowledgeType.REJECT)
            stored.window.acknowledge([rejected], member_id="m", now_ms=0, rules=rules)
            writing = writer.written(stored)
            assert written == []
            await writing
            [(of, [records])] = written
            assert of is stored
            assert (records.first, records.last) == (0, 0)
            assert KEY in read_windows(topic)

    asyncio.run(write())
