"""Offsets of groups: who may commit them, when they expire, and that memory and log agree."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from headrace.broker.groups.group_offsets import Committer
from headrace.broker.groups.offsets import CommittedOffset, TopicPartition
from headrace.broker.groups.state import GroupState
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.rejections import RequestRejected
from headrace.broker.server import Server
from headrace.broker.settings import BrokerSettings
from headrace.protocol.error_codes import ErrorCode
from headrace.records.control import MarkerType
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.manual_clock import ManualClock
from tests.broker.groups.running import A0, DAY_MS, Running, running
from tests.broker.groups.simulation import SESSION_MS


def test_commit_extends_the_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            member = await broker.member()
            await broker.pass_ms(SESSION_MS - 1)
            await broker.commit(3, by=member)
            await broker.pass_ms(SESSION_MS - 1)
            assert broker.heartbeat(member) is ErrorCode.NONE

    asyncio.run(scenario())


def test_offsets_of_an_empty_group_expire_with_the_group(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running(tmp_path, clock=clock, offsets_retention_ms=DAY_MS) as broker:
            member = await broker.member()
            await broker.commit(3, by=member)
            await broker.pass_ms(SESSION_MS)
            await broker.pass_ms(DAY_MS - 1)
            broker.groups.expire(clock.now_ms())
            await broker.stabilize()
            assert broker.committed() == 3
            await broker.pass_ms(1)
            broker.groups.expire(clock.now_ms())
            await broker.stabilize()
            assert (broker.committed(), broker.state()) == (None, None)
        async with running(tmp_path, clock=clock) as broker:
            assert (broker.committed(), broker.state()) == (None, None), "also after a restart"

    asyncio.run(scenario())


def test_offsets_of_a_deleted_topic_are_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.commit(3)
            broker.groups.offsets.topic_deleted("a")
            await broker.stabilize()
            assert broker.committed() is None
        async with running(tmp_path) as broker:
            assert broker.committed() is None

    asyncio.run(scenario())


def test_offsets_of_a_topic_that_is_deleted_while_groups_load_are_deleted(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.commit(3)
        server = Server(BrokerSettings(data_dir=tmp_path, port=0, durability="os"), clock=ManualClock())
        await server.start()
        broker = Running(server, ManualClock())
        assert broker.groups.unavailable is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        broker.groups.offsets.topic_deleted("a")
        await broker.stabilize()
        assert broker.committed() is None
        await server.stop()
        async with running(tmp_path) as broker:
            assert broker.committed() is None

    asyncio.run(scenario())


def test_commits_and_leaves_take_effect_in_the_order_in_which_they_arrive(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            member = await broker.member()
            committed = CommittedOffset(offset=9, leader_epoch=-1, metadata="", committed_at_ms=0)
            by = Committer(member_id=member.member_id, generation=member.generation_id)
            storing = broker.groups.offsets.commit("g", {A0: committed}, by)
            broker.leave(member)
            await storing
            assert (broker.committed(), broker.state()) == (9, GroupState.EMPTY)

    asyncio.run(scenario())


def test_commit_that_arrives_while_its_group_is_deleted_is_not_lost(tmp_path: Path) -> None:
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


def test_commit_that_arrives_while_thousands_of_offsets_are_deleted_is_not_lost(tmp_path: Path) -> None:
    """The tombstones do not fit into one batch."""

    async def scenario() -> None:
        async with running(tmp_path, durability="fsync") as broker:
            await broker.commit(3)
            other = CommittedOffset(offset=1, leader_epoch=-1, metadata="", committed_at_ms=0)
            others = {TopicPartition("b" * 200, index): other for index in range(3_000)}
            await broker.groups.offsets.commit("g", others, Committer())
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
            await broker.groups.offsets.commit("g", offsets, Committer())
            files.fail("write", f"*{OFFSETS_TOPIC}-0/*.log", error_number=errno.ENOSPC, skip=1)
            with pytest.raises(RequestRejected):
                await broker.groups.delete("g")
            kept = dict(broker.groups.offsets.committed("g"))
            assert 0 < len(kept) < 3_000
        async with running(tmp_path) as broker:
            assert dict(broker.groups.offsets.committed("g")) == kept

    asyncio.run(scenario())


def test_commit_on_a_full_disk_stores_all_offsets_or_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = FailingFileSystem()
        async with running(tmp_path, files=files) as broker:
            await broker.commit(3)
            offset = CommittedOffset(offset=1, leader_epoch=-1, metadata="", committed_at_ms=0)
            offsets = {TopicPartition("b" * 200, index): offset for index in range(3_000)}
            files.fail("write", f"*{OFFSETS_TOPIC}-0/*.log", error_number=errno.ENOSPC, skip=1)
            await broker.groups.offsets.commit("g", offsets, Committer())
            with pytest.raises(RequestRejected):
                await broker.groups.offsets.commit("h", offsets, Committer())
            assert broker.groups.offsets.committed("h") == {}
        async with running(tmp_path) as broker:
            assert len(broker.groups.offsets.committed("g")) == 3_001
            assert broker.groups.offsets.committed("h") == {}

    asyncio.run(scenario())


def test_commit_that_does_not_fit_into_a_batch_is_rejected(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            offset = CommittedOffset(offset=1, leader_epoch=-1, metadata="x" * 4_096, committed_at_ms=0)
            offsets = {TopicPartition("b", index): offset for index in range(2_100)}
            with pytest.raises(RequestRejected) as rejected:
                await broker.groups.offsets.commit("g", offsets, Committer())
            assert rejected.value.code is ErrorCode.INVALID_COMMIT_OFFSET_SIZE

    asyncio.run(scenario())


def test_deleted_offset_is_not_restored_by_an_older_commit_of_a_transaction_that_ends_later(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.commit(3)
            in_transaction = CommittedOffset(offset=5, leader_epoch=-1, metadata="", committed_at_ms=0)
            broker.groups.offsets.commit_in_transaction(
                "g",
                {A0: in_transaction},
                Committer(),
                producer_id=1,
                producer_epoch=0,
            )
            await broker.groups.offsets.delete("g", [A0])
            [partition] = broker.server.parts.topics.internal(OFFSETS_TOPIC).partitions
            await broker.server.parts.markers.write_one(partition, MarkerType.COMMIT, 1, 0)
            assert broker.committed() is None
        async with running(tmp_path) as broker:
            assert broker.committed() is None

    asyncio.run(scenario())
