"""Classic members in a real broker: sessions that end, and answers to requests that wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

from headrace.broker.groups.state import GroupState
from headrace.protocol.error_codes import ErrorCode
from tests.broker.groups.running import running
from tests.broker.groups.simulation import SESSION_MS


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


def test_a_group_that_refused_its_first_member_is_not_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            assert (await broker.join("made-up-id")).error is ErrorCode.UNKNOWN_MEMBER_ID
            assert broker.state() is None

    asyncio.run(scenario())
