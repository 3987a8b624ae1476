"""The coordinator in a real broker, with a clock that the test sets and a disk that fails when told."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.events import Heartbeat, Join, JoinAnswer, Leave, LeavingMember, Sync
from headrace.broker.groups.offsets import CommittedOffset, TopicPartition
from headrace.broker.groups.state import GroupState
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.refusals import RequestRefused
from headrace.broker.server import Server
from headrace.broker.settings import BrokerSettings
from headrace.log.filesystem import FileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.records.control import MarkerType
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.manual_clock import ManualClock
from tests.broker.groups.simulation import REBALANCE_MS, SESSION_MS, offers
from tests.broker.observing import eventually

DAY_MS = 86_400_000
A0 = TopicPartition("a", 0)


class Running:
    """A broker and short ways to ask its coordinator."""

    def __init__(self, server: Server, clock: ManualClock) -> None:
        self.server = server
        self.clock = clock

    @property
    def groups(self) -> GroupCoordinator:
        return self.server.parts.groups

    def state(self, group_id: str = "g") -> GroupState | None:
        group = self.groups.group(group_id)
        return None if group is None else group.state

    async def pass_ms(self, by_ms: int) -> None:
        self.clock.advance_ms(by_ms)
        self.groups.run_due_timers()
        await self.settle()

    async def settle(self) -> None:
        """Until everything that the coordinator has begun is done."""
        await self.groups.idle()

    def join(
        self, member_id: str = "", group_id: str = "g", instance_id: str | None = None
    ) -> Awaitable[JoinAnswer]:
        join = Join(
            member_id=member_id,
            instance_id=instance_id,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=offers(),
            needs_known_id=False,
            can_skip_assignment=True,
        )
        return self.groups.join(group_id, join)

    async def member(self, group_id: str = "g", instance_id: str | None = None) -> JoinAnswer:
        """The only member of a group, with the assignment «all»."""
        joining = asyncio.ensure_future(self.join(group_id=group_id, instance_id=instance_id))
        await self.pass_ms(0)
        joined = await joining
        assert joined.error is ErrorCode.NONE
        synced = await self.sync(joined, group_id)
        assert synced is ErrorCode.NONE
        return joined

    async def sync(self, joined: JoinAnswer, group_id: str = "g") -> ErrorCode:
        sync = Sync(
            member_id=joined.member_id,
            instance_id=None,
            generation=joined.generation,
            protocol_type=None,
            protocol_name=None,
            assignments={joined.member_id: b"all"},
        )
        return (await self.groups.sync(group_id, sync)).error

    def heartbeat(self, joined: JoinAnswer, group_id: str = "g", instance_id: str | None = None) -> ErrorCode:
        beat = Heartbeat(member_id=joined.member_id, instance_id=instance_id, generation=joined.generation)
        return self.groups.heartbeat(group_id, beat).error

    def leave(self, joined: JoinAnswer, group_id: str = "g") -> None:
        leaving = LeavingMember(member_id=joined.member_id, instance_id=None)
        self.groups.leave(group_id, Leave(members=(leaving,)))

    async def commit(self, offset: int, group_id: str = "g", by: JoinAnswer | None = None) -> None:
        committed = CommittedOffset(
            offset=offset, leader_epoch=-1, metadata="", committed_at_ms=self.clock.now_ms()
        )
        await self.groups.offsets.commit(
            group_id,
            {A0: committed},
            member_id="" if by is None else by.member_id,
            instance_id=None,
            generation=-1 if by is None else by.generation,
        )

    def committed(self, group_id: str = "g") -> int | None:
        found = self.groups.offsets.committed(group_id).get(A0)
        return None if found is None else found.offset


@asynccontextmanager
async def running(
    folder: Path, *, clock: ManualClock | None = None, files: FileSystem | None = None, **settings: Any
) -> AsyncIterator[Running]:
    clock = clock or ManualClock()
    settings = {"durability": "os", **settings}
    server = Server(BrokerSettings(data_dir=folder, port=0, **settings), clock=clock, files=files)
    await server.start()
    try:
        broker = Running(server, clock)
        await broker.settle()
        yield broker
    finally:
        await server.stop()


def test_a_silent_member_is_removed_when_its_session_has_passed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            member = await broker.member()
            await broker.pass_ms(SESSION_MS - 1)
            assert broker.heartbeat(member) is ErrorCode.NONE
            await broker.pass_ms(SESSION_MS - 1)
            assert broker.state() is GroupState.STABLE
            await broker.pass_ms(1)
            assert broker.state() is GroupState.EMPTY

    asyncio.run(scenario())


def test_whoever_commits_is_alive(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            member = await broker.member()
            await broker.pass_ms(SESSION_MS - 1)
            await broker.commit(3, by=member)
            await broker.pass_ms(SESSION_MS - 1)
            assert broker.heartbeat(member) is ErrorCode.NONE

    asyncio.run(scenario())


class JumpingClock(ManualClock):
    """Somebody sets the wall clock."""

    jump_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.jump_ms


def test_a_jump_of_the_wall_clock_ends_no_session_and_expires_no_offset(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = JumpingClock()
        async with running(tmp_path, clock=clock) as broker:
            await broker.commit(3, "simple")
            member = await broker.member()
            for clock.jump_ms in (400 * DAY_MS, -400 * DAY_MS):
                await broker.pass_ms(1)
                broker.groups.expire(clock.now_ms())
                await broker.settle()
                assert broker.heartbeat(member) is ErrorCode.NONE
                assert broker.committed("simple") == 3

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
            await broker.settle()
            assert broker.committed() == 3
            await broker.pass_ms(1)
            broker.groups.expire(clock.now_ms())
            await broker.settle()
            assert (broker.committed(), broker.state()) == (None, None)
        async with running(tmp_path, clock=clock) as broker:
            assert (broker.committed(), broker.state()) == (None, None), "and they don't come back"

    asyncio.run(scenario())


def test_members_and_offsets_are_there_after_a_restart_and_need_no_rebalance(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            member = await broker.member()
            await broker.commit(3, by=member)
        async with running(tmp_path) as broker:
            assert broker.state() is GroupState.STABLE
            assert broker.heartbeat(member) is ErrorCode.NONE
            assert broker.committed() == 3
            await broker.commit(4, by=member)
            await broker.pass_ms(SESSION_MS)
            assert broker.state() is GroupState.EMPTY, "sessions run again after a restart"

    asyncio.run(scenario())


def test_a_static_member_that_restarts_with_the_broker_keeps_its_generation(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            before = await broker.member(instance_id="static")
        async with running(tmp_path) as broker:
            after = await broker.join(instance_id="static")
            assert (after.error, after.generation) == (ErrorCode.NONE, before.generation)
            assert broker.heartbeat(before, instance_id="static") is ErrorCode.FENCED_INSTANCE_ID
        async with running(tmp_path) as broker:
            assert broker.heartbeat(after, instance_id="static") is ErrorCode.NONE, "its new id was stored"

    asyncio.run(scenario())


def test_while_the_log_is_read_requests_are_told_to_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            member = await broker.member()
        server = Server(BrokerSettings(data_dir=tmp_path, port=0, durability="os"), clock=ManualClock())
        await server.start()
        broker = Running(server, ManualClock())
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await broker.join()).error is loading
        assert broker.heartbeat(member) is ErrorCode.NONE, "a heartbeat is given the benefit of the doubt"
        with pytest.raises(RequestRefused) as refused:
            broker.committed()
        assert refused.value.code is loading
        await broker.settle()
        assert broker.state() is GroupState.STABLE
        await server.stop()

    asyncio.run(scenario())


def test_a_damaged_log_stops_groups_rather_than_lose_offsets(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.commit(3)
        segment = tmp_path / f"{OFFSETS_TOPIC}-0" / f"{0:020}.log"
        damaged = bytearray(segment.read_bytes())
        damaged[-3] ^= 1
        segment.write_bytes(damaged)
        async with running(tmp_path) as broker:
            with pytest.raises(RequestRefused) as refused:
                broker.committed()
            assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (await broker.join()).error is ErrorCode.COORDINATOR_NOT_AVAILABLE

    asyncio.run(scenario())


def test_an_unreadable_log_is_answered_with_not_available_until_it_can_be_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.commit(3)
        files = FailingFileSystem()
        server = Server(BrokerSettings(data_dir=tmp_path, port=0), clock=ManualClock(), files=files)
        await server.start()
        files.fail("read", f"*{OFFSETS_TOPIC}-0/*.log", error_number=errno.EIO, times=None)
        broker = Running(server, ManualClock())
        groups, loading = server.parts.groups, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await asyncio.to_thread(eventually, lambda: groups.unavailable is not loading, "the first try fails")
        with pytest.raises(RequestRefused) as refused:
            broker.committed()
        assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        files.heal()
        await broker.settle()
        assert broker.committed() == 3
        await server.stop()

    asyncio.run(scenario())


def test_a_full_disk_refuses_commits_and_assignments_until_there_is_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = FailingFileSystem()
        async with running(tmp_path, files=files) as broker:
            await broker.commit(3, "simple")
            joining = asyncio.ensure_future(broker.join())
            await broker.pass_ms(0)
            member = await joining
            files.fail("write", f"*{OFFSETS_TOPIC}-0/*", error_number=errno.ENOSPC, times=None)
            assert await broker.sync(member) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            with pytest.raises(RequestRefused) as refused:
                await broker.commit(4, "simple")
            assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert broker.committed("simple") == 3, "what was not stored is not told"
            files.heal()
            await broker.commit(5, "simple")
            assert broker.committed("simple") == 5
            assert await broker.sync(await broker.join(member.member_id)) is ErrorCode.NONE

    asyncio.run(scenario())


def test_whoever_waits_when_the_broker_stops_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.member()
            waiting = asyncio.ensure_future(broker.join())
            await broker.settle()
            assert not waiting.done()
            broker.groups.close()
            assert (await waiting).error is ErrorCode.NOT_COORDINATOR

    asyncio.run(scenario())


def test_offsets_of_a_deleted_topic_are_gone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.commit(3)
            broker.groups.offsets.topic_deleted("a")
            await broker.settle()
            assert broker.committed() is None
        async with running(tmp_path) as broker:
            assert broker.committed() is None

    asyncio.run(scenario())


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


def test_a_group_too_many_is_refused_and_a_known_one_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, groups_max=1) as broker:
            await broker.commit(1, "first")
            assert (await broker.join(group_id="second")).error is ErrorCode.POLICY_VIOLATION
            with pytest.raises(RequestRefused):
                await broker.commit(1, "second")
            await broker.commit(2, "first")
            assert broker.committed("first") == 2

    asyncio.run(scenario())


def test_a_group_that_refused_its_first_member_is_not_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            assert (await broker.join("made-up-id")).error is ErrorCode.UNKNOWN_MEMBER_ID
            assert broker.state() is None

    asyncio.run(scenario())


def test_commits_and_departures_take_effect_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            member = await broker.member()
            committed = CommittedOffset(offset=9, leader_epoch=-1, metadata="", committed_at_ms=0)
            storing = broker.groups.offsets.commit(
                "g",
                {A0: committed},
                member_id=member.member_id,
                instance_id=None,
                generation=member.generation,
            )
            broker.leave(member)
            await storing
            assert (broker.committed(), broker.state()) == (9, GroupState.EMPTY)

    asyncio.run(scenario())
