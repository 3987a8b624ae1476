"""Committed offsets in memory and in the log: they agree, whatever happens at the same time."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from headrace.broker.groups.offsets import CommittedOffset, TopicPartition
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.refusals import RequestRefused
from headrace.records.control import MarkerType
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.broker.groups.running import A0, running


def test_a_commit_that_arrives_while_its_group_is_deleted_is_not_lost(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.commit(3)
            deleting = asyncio.ensure_future(broker.groups.delete("g"))
            await broker.commit(4)
            await deleting
            assert broker.committed() == 4
        async with running(tmp_path) as broker:
            assert broker.committed() == 4

    asyncio.run(scenario())


def test_a_commit_that_arrives_while_thousands_of_offsets_are_deleted_is_not_lost(tmp_path: Path) -> None:
    """The tombstones do not fit into one batch."""

    async def scenario() -> None:
        async with running(tmp_path, durability="fsync") as broker:
            await broker.commit(3)
            other = CommittedOffset(offset=1, leader_epoch=-1, metadata="", committed_at_ms=0)
            others = {TopicPartition("b" * 200, index): other for index in range(3_000)}
            await broker.groups.offsets.commit("g", others, member_id="", instance_id=None, generation=-1)
            deleting = asyncio.ensure_future(broker.groups.delete("g"))
            await broker.commit(4)
            await deleting
            assert dict(broker.groups.offsets.committed("g")).keys() == {A0}
            assert broker.committed() == 4
        async with running(tmp_path) as broker:
            assert dict(broker.groups.offsets.committed("g")).keys() == {A0}
            assert broker.committed() == 4

    asyncio.run(scenario())


def test_offsets_are_the_same_after_a_restart_if_the_disk_was_full_in_the_middle_of_their_deletion(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        files = FailingFileSystem()
        async with running(tmp_path, files=files) as broker:
            offset = CommittedOffset(offset=1, leader_epoch=-1, metadata="", committed_at_ms=0)
            offsets = {TopicPartition("b" * 200, index): offset for index in range(3_000)}
            await broker.groups.offsets.commit("g", offsets, member_id="", instance_id=None, generation=-1)
            files.fail("write", f"*{OFFSETS_TOPIC}-0/*.log", error_number=errno.ENOSPC, skip=1)
            with pytest.raises(RequestRefused):
                await broker.groups.delete("g")
            kept = dict(broker.groups.offsets.committed("g"))
            assert 0 < len(kept) < 3_000
        async with running(tmp_path) as broker:
            assert dict(broker.groups.offsets.committed("g")) == kept

    asyncio.run(scenario())


def test_a_deleted_offset_is_not_restored_by_an_older_commit_of_a_transaction_that_ends_later(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.commit(3)
            in_transaction = CommittedOffset(offset=5, leader_epoch=-1, metadata="", committed_at_ms=0)
            broker.groups.offsets.commit_in_transaction(
                "g",
                {A0: in_transaction},
                producer_id=1,
                producer_epoch=0,
                member_id="",
                instance_id=None,
                generation=-1,
            )
            await broker.groups.offsets.delete("g", [A0])
            [partition] = broker.server.parts.topics.internal(OFFSETS_TOPIC).partitions
            await broker.server.parts.markers.write_one(partition, MarkerType.COMMIT, 1, 0)
            assert broker.committed() is None
        async with running(tmp_path) as broker:
            assert broker.committed() is None

    asyncio.run(scenario())
