"""Groups of the newer protocol in a real broker, with a clock that the test sets and a disk that fails on purpose."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from headrace.broker.groups.consumer import ConsumerHeartbeat, ConsumerResult
from headrace.broker.groups.consumer_state import ConsumerGroup, ConsumerGroupState
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.manual_clock import ManualClock
from tests.broker.groups.running import DAY_MS, JumpingClock, Running, running

SESSION_MS = 45_000
REBALANCE_MS = 60_000


def beat(
    broker: Running, member_id: str, epoch: int, *, group_id: str = "g", topic: str = "a"
) -> ConsumerResult:
    """A heartbeat of a member that has revoked all that it had to."""
    heartbeat = ConsumerHeartbeat(
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=REBALANCE_MS,
        topics=(topic,) if epoch == 0 else None,
        reported={} if epoch >= 0 else None,
    )
    return broker.groups.consumer_heartbeat(group_id, heartbeat)[0]


def rejected(broker: Running, member_id: str, epoch: int, *, group_id: str = "g") -> ErrorCode:
    with pytest.raises(RequestRejected) as rejection:
        beat(broker, member_id, epoch, group_id=group_id)
    return rejection.value.code


def group_of(broker: Running) -> ConsumerGroup:
    group = broker.groups.consumer_group("g")
    assert group is not None
    return group


def test_session_ends_by_monotonic_time(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        clock = JumpingClock()
        async with running(tmp_path, clock=clock) as broker:
            broker.server.parts.topics.create("a", 2, {})
            beat(broker, "silent", 0)
            beat(broker, "loud", 0)
            for clock.jump_ms in (400 * DAY_MS, -400 * DAY_MS):
                await broker.pass_ms(SESSION_MS // 2 - 1)
                epoch = group_of(broker).members["loud"].epoch
                beat(broker, "loud", epoch)
                assert {*group_of(broker).members} == {"silent", "loud"}
            await broker.pass_ms(2)
            assert {*group_of(broker).members} == {"loud"}
            beat(broker, "loud", group_of(broker).members["loud"].epoch)
            assert [len(parts) for parts in group_of(broker).members["loud"].assigned.values()] == [2]

    asyncio.run(scenario())


def test_offsets_and_the_group_expire_when_no_member_consumes(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running(tmp_path, clock=clock, offsets_retention_ms=DAY_MS) as broker:
            broker.server.parts.topics.create("a", 1, {})
            await broker.commit(3)
            member = beat(broker, "m", 0)
            for _ in range(3):
                await broker.pass_ms(SESSION_MS - 1)
                beat(broker, "m", member.member_epoch)
            clock.advance_ms(2 * DAY_MS)
            beat(broker, "m", member.member_epoch)
            broker.groups.expire(clock.now_ms())
            await broker.stabilize()
            assert broker.committed() == 3, "a topic that is consumed keeps its offsets"
            beat(broker, "m", -1)
            broker.groups.expire(clock.now_ms())
            await broker.stabilize()
            assert (broker.committed(), broker.groups.consumer_group("g")) == (None, None)
        async with running(tmp_path, clock=clock) as broker:
            assert broker.groups.consumer_group("g") is None, "also after a restart"

    asyncio.run(scenario())


def test_full_disk_changes_nothing_and_members_continue_when_there_is_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = FailingFileSystem()
        async with running(tmp_path, files=files) as broker:
            broker.server.parts.topics.create("a", 2, {})
            first = beat(broker, "m", 0)
            before = (group_of(broker).epochs, dict(group_of(broker).members))
            files.fail("write", f"*{OFFSETS_TOPIC}-0/*", error_number=errno.ENOSPC, times=None)
            assert rejected(broker, "n", 0) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert rejected(broker, "o", 0, group_id="h") is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (group_of(broker).epochs, group_of(broker).members) == before
            assert broker.groups.consumer_group("h") is None
            assert beat(broker, "m", first.member_epoch).assignment is None, (
                "nothing to store, so it continues"
            )
            await broker.pass_ms(SESSION_MS)
            assert "m" in group_of(broker).members, "a change that can't be stored has no effect"
            files.heal()
            second = beat(broker, "n", 0)
            assert second.member_epoch == first.member_epoch + 1

    asyncio.run(scenario())


def test_group_is_deleted_with_its_offsets_or_not_at_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = FailingFileSystem()
        offsets_log = f"*{OFFSETS_TOPIC}-0/*.log"
        async with running(tmp_path, files=files) as broker:
            broker.server.parts.topics.create("a", 1, {})
            await broker.commit(3)
            beat(broker, "m", 0)
            beat(broker, "m", -1)
            files.fail("write", offsets_log, error_number=errno.ENOSPC)
            with pytest.raises(RequestRejected):
                await broker.groups.delete("g")
            assert (broker.committed(), group_of(broker).state) == (3, ConsumerGroupState.EMPTY)
            files.fail("write", offsets_log, error_number=errno.ENOSPC, skip=1, times=None)
            await broker.groups.delete("g")
            assert (broker.committed(), broker.groups.consumer_group("g")) == (None, None)
            files.heal()
        async with running(tmp_path, files=files) as broker:
            assert broker.groups.consumer_group("g") is None, "also after a restart"

    asyncio.run(scenario())


def test_group_is_the_same_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running(tmp_path, clock=clock) as broker:
            broker.server.parts.topics.create("a", 3, {})
            beat(broker, "m", 0)
            beat(broker, "n", 0)
            before = group_of(broker)
        async with running(tmp_path, clock=clock) as broker:
            after = group_of(broker)
            assert (after.epochs, after.members, after.targets) == (
                before.epochs,
                before.members,
                before.targets,
            )
            beat(broker, "n", after.members["n"].epoch)
            assert after.epochs == before.epochs, "a restart does not change the assignment"
            await broker.pass_ms(SESSION_MS + 1)
            assert not group_of(broker).members, "sessions run again"

    asyncio.run(scenario())


def test_group_that_became_classic_while_the_disk_was_full_is_classic_after_a_restart(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        files = FailingFileSystem()
        async with running(tmp_path, files=files) as broker:
            broker.server.parts.topics.create("a", 1, {})
            beat(broker, "m", 0)
            beat(broker, "m", -1)
            files.fail("write", f"*{OFFSETS_TOPIC}-0/*", error_number=errno.ENOSPC, times=None)
            joining = asyncio.ensure_future(broker.join())
            await broker.pass_ms(0)
            joined = await joining
            files.heal()
            assert await broker.sync(joined) is ErrorCode.NONE
        async with running(tmp_path) as broker:
            assert broker.groups.consumer_group("g") is None
            assert broker.heartbeat(joined) is ErrorCode.NONE

    asyncio.run(scenario())


def test_members_are_rejected_with_load_in_progress_while_groups_load(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            broker.server.parts.topics.create("a", 1, {})
            beat(broker, "m", 0)
        async with running(tmp_path) as broker:
            broker.groups.load()
            broker.groups._unavailable = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert rejected(broker, "m", 1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await broker.groups.loaded()
            assert beat(broker, "m", 1).member_epoch == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("count", "partitions"), [(300, 30), pytest.param(10_000, 1_000, marks=pytest.mark.slow)]
)
def test_large_group_becomes_stable_and_is_empty_after_all_leave(
    tmp_path: Path, count: int, partitions: int
) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        async with running(tmp_path, clock=clock) as broker:
            broker.server.parts.topics.create("a", partitions, {})
            members = {f"m{number}": 0 for number in range(count)}

            def heartbeats() -> None:
                for member_id, epoch in members.items():
                    clock.advance_ms(1)
                    members[member_id] = beat(broker, member_id, epoch).member_epoch

            rounds = 0
            while rounds == 0 or group_of(broker).state is not ConsumerGroupState.STABLE:
                heartbeats()
                rounds += 1
                assert rounds < 10, "the group does not become stable"
            owned = [
                place for member in group_of(broker).members.values() for place in member.owned_partitions()
            ]
            assert len(owned) == len({*owned}) == partitions
            for member_id in members:
                beat(broker, member_id, -1)
            assert group_of(broker).state is ConsumerGroupState.EMPTY

    asyncio.run(scenario())
