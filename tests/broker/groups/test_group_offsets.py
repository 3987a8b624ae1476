"""Offsets of groups: who may commit them, and when they expire."""

from __future__ import annotations

import asyncio
from pathlib import Path

from headrace.broker.groups.offsets import CommittedOffset
from headrace.broker.groups.state import GroupState
from headrace.protocol.error_codes import ErrorCode
from headrace.testing.manual_clock import ManualClock
from tests.broker.groups.running import A0, DAY_MS, running
from tests.broker.groups.simulation import SESSION_MS


def test_whoever_commits_is_alive(tmp_path: Path) -> None:
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
            await broker.settle()
            assert broker.committed() == 3
            await broker.pass_ms(1)
            broker.groups.expire(clock.now_ms())
            await broker.settle()
            assert (broker.committed(), broker.state()) == (None, None)
        async with running(tmp_path, clock=clock) as broker:
            assert (broker.committed(), broker.state()) == (None, None), "and they don't come back"

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
