"""Classic members in a real broker: sessions that end, and responses to requests that wait."""

from __future__ import annotations

import asyncio
from pathlib import Path

from headrace.broker.groups.state import GroupState
from headrace.protocol.error_codes import ErrorCode
from tests.broker.groups.running import running
from tests.broker.groups.simulation import SESSION_MS


def test_member_without_heartbeats_is_removed_after_its_session(tmp_path: Path) -> None:
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


def test_waiting_requests_get_a_response_when_the_broker_stops(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.member()
            waiting = asyncio.ensure_future(broker.join())
            await broker.stabilize()
            assert not waiting.done()
            broker.groups.close()
            assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR

    asyncio.run(scenario())


def test_group_that_rejected_its_first_member_is_not_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            assert (await broker.join("made-up-id")).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert broker.state() is None

    asyncio.run(scenario())
