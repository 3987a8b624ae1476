"""Members of share groups: sessions that end, and the bounds on members and groups."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.broker.groups.registry import GroupRegistry, size_of_names
from headrace.broker.groups.share import JOIN_EPOCH, LEAVE_EPOCH, ShareHeartbeat, ShareHeartbeatResult
from headrace.broker.groups.share_members import ShareMembers
from headrace.protocol.error_codes import ErrorCode
from headrace.testing.manual_clock import ManualClock
from tests.broker.groups.simulation import code_of
from tests.broker.state_topics import parts_in

SESSION_MS = 45_000


class Released:
    """The members whose locks are to be released, and how they left."""

    def __init__(self) -> None:
        self.members: list[tuple[str, str]] = []

    def member_leaves(self, group_id: str, member_id: str) -> None:
        self.members.append((member_id, "leaves"))

    def member_left(self, group_id: str, member_id: str, *, is_orderly: bool) -> None:
        self.members.append((member_id, "left in order" if is_orderly else "lost"))


@contextmanager
def members_in(folder: Path, clock: ManualClock, **settings: Any) -> Iterator[tuple[ShareMembers, Released]]:
    bytes_max = size_of_names(["a", "b"])
    with parts_in(folder, clock=clock, group_member_bytes_max=bytes_max, **settings) as parts:
        parts.topics.create("a", 2, {})
        released = Released()
        members = ShareMembers(
            parts.runtime,
            topics=parts.topics,
            configs=parts.group_configs,
            registry=GroupRegistry(parts.settings),
            shares=released,
        )
        try:
            yield members, released
        finally:
            members.close()


def beat(
    members: ShareMembers, member_id: str, epoch: int = JOIN_EPOCH, *topics: str, group_id: str = "g"
) -> ShareHeartbeatResult:
    heartbeat = ShareHeartbeat(
        member_id=member_id,
        member_epoch=epoch,
        client_id="c",
        client_host="/h",
        rack_id=None,
        topics=topics or None,
    )
    return members.heartbeat(group_id, heartbeat)


def test_member_without_heartbeats_is_removed_after_its_session_and_its_locks_are_released(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        with members_in(tmp_path, clock) as (members, released):
            for name in ("silent", "loud"):
                joined = beat(members, name, JOIN_EPOCH, "a")
            clock.advance_ms(SESSION_MS - 1)
            members.run_due_timers()
            beat(members, "loud", joined.member_epoch)
            assert released.members == []
            clock.advance_ms(1)
            members.run_due_timers()
            group = members.get("g")
            assert group is not None
            assert ({*group.members}, released.members) == ({"loud"}, [("silent", "lost")])
            assert code_of(beat, members, "silent", joined.member_epoch) is ErrorCode.UNKNOWN_MEMBER_ID

    asyncio.run(scenario())


def test_member_that_leaves_has_no_session_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = ManualClock()
        with members_in(tmp_path, clock) as (members, released):
            beat(members, "m", JOIN_EPOCH, "a")
            assert beat(members, "m", LEAVE_EPOCH).member_epoch == LEAVE_EPOCH
            assert code_of(beat, members, "m", LEAVE_EPOCH) is ErrorCode.UNKNOWN_MEMBER_ID
            clock.advance_ms(SESSION_MS)
            members.run_due_timers()
            assert released.members == [("m", "leaves")]

    asyncio.run(scenario())


def test_group_or_member_over_a_bound_is_rejected_and_not_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        with members_in(tmp_path, ManualClock(), groups_max=1, group_members_max=1) as (members, _):
            full = ErrorCode.GROUP_MAX_SIZE_REACHED
            assert code_of(beat, members, "m", JOIN_EPOCH, "a", "b", "c") is full
            assert len(members) == 0
            beat(members, "m", JOIN_EPOCH, "a", "b")
            assert code_of(beat, members, "n", JOIN_EPOCH, "a") is full
            assert code_of(beat, members, "n", JOIN_EPOCH, "a", group_id="h") is full
            assert [group.group_id for group in members.groups()] == ["g"]

    asyncio.run(scenario())


def test_member_is_assigned_the_topics_that_exist(tmp_path: Path) -> None:
    async def scenario() -> None:
        with members_in(tmp_path, ManualClock()) as (members, _):
            response = beat(members, "m", JOIN_EPOCH, "a", "b")
            assert response.assignment is not None
            assert [*response.assignment.values()] == [(0, 1)]

    asyncio.run(scenario())
