"""The coordinator in a real broker, with a clock that the test sets and a disk that fails on purpose."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from headrace.broker.groups.state import GroupState
from headrace.broker.groups.storage import OFFSETS_TOPIC
from headrace.broker.rejections import RequestRejected
from headrace.broker.server import Server
from headrace.broker.settings import BrokerSettings
from headrace.protocol.error_codes import ErrorCode
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.manual_clock import ManualClock
from tests.broker.groups.running import DAY_MS, JumpingClock, Running, running
from tests.broker.groups.simulation import SESSION_MS
from tests.broker.observing import eventually


def test_jump_of_the_system_clock_ends_no_session_and_expires_no_offset(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = JumpingClock()
        async with running(tmp_path, clock=clock) as broker:
            await broker.commit(3, "simple")
            member = await broker.member()
            for clock.jump_ms in (400 * DAY_MS, -400 * DAY_MS):
                await broker.pass_ms(1)
                broker.groups.expire(clock.now_ms())
                await broker.stabilize()
                assert broker.heartbeat(member) is ErrorCode.NONE
                assert broker.committed("simple") == 3

    asyncio.run(scenario())


def test_members_and_offsets_are_loaded_after_a_restart_without_a_rebalance(tmp_path: Path) -> None:
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


def test_static_member_that_restarts_with_the_broker_keeps_its_generation(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            before = await broker.member(instance_id="static")
        async with running(tmp_path) as broker:
            after = await broker.join(instance_id="static")
            assert (after.error_code, after.generation_id) == (ErrorCode.NONE, before.generation_id)
            assert broker.heartbeat(before, instance_id="static") is ErrorCode.FENCED_INSTANCE_ID
        async with running(tmp_path) as broker:
            assert broker.heartbeat(after, instance_id="static") is ErrorCode.NONE, "its new id was stored"

    asyncio.run(scenario())


def test_requests_are_rejected_with_load_in_progress_while_groups_load(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            member = await broker.member()
        server = Server(BrokerSettings(data_dir=tmp_path, port=0, durability="os"), clock=ManualClock())
        await server.start()
        broker = Running(server, ManualClock())
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await broker.join()).error_code == loading
        assert broker.heartbeat(member) is ErrorCode.NONE, "a member stays in its group"
        with pytest.raises(RequestRejected) as rejected:
            broker.committed()
        assert rejected.value.code is loading
        await broker.stabilize()
        assert broker.state() is GroupState.STABLE
        await server.stop()

    asyncio.run(scenario())


def test_groups_are_unavailable_if_their_log_is_damaged(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.commit(3)
        segment = tmp_path / f"{OFFSETS_TOPIC}-0" / f"{0:020}.log"
        damaged = bytearray(segment.read_bytes())
        damaged[-3] ^= 1
        segment.write_bytes(damaged)
        async with running(tmp_path) as broker:
            with pytest.raises(RequestRejected) as rejected:
                broker.committed()
            assert rejected.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert (await broker.join()).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    asyncio.run(scenario())


def test_groups_are_unavailable_until_their_log_can_be_read(tmp_path: Path) -> None:
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
        with pytest.raises(RequestRejected) as rejected:
            broker.committed()
        assert rejected.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        files.heal()
        await broker.stabilize()
        assert broker.committed() == 3
        await server.stop()

    asyncio.run(scenario())


def test_full_disk_rejects_commits_and_assignments_until_there_is_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        files = FailingFileSystem()
        async with running(tmp_path, files=files) as broker:
            await broker.commit(3, "simple")
            joining = asyncio.ensure_future(broker.join())
            await broker.pass_ms(0)
            member = await joining
            files.fail("write", f"*{OFFSETS_TOPIC}-0/*", error_number=errno.ENOSPC, times=None)
            assert await broker.sync(member) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            with pytest.raises(RequestRejected) as rejected:
                await broker.commit(4, "simple")
            assert rejected.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert broker.committed("simple") == 3, "a commit that failed is not visible"
            files.heal()
            await broker.commit(5, "simple")
            assert broker.committed("simple") == 5
            assert await broker.sync(await broker.join(member.member_id)) is ErrorCode.NONE

    asyncio.run(scenario())
