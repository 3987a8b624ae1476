"""A broker with a clock that the test sets, and short forms of requests to its group coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.events import Join
from headrace.broker.groups.group_offsets import Committer
from headrace.broker.groups.offsets import CommittedOffset, TopicPartition
from headrace.broker.groups.state import GroupState
from headrace.broker.server import Server
from headrace.broker.settings import BrokerSettings
from headrace.log.filesystem import FileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupResponse
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.testing.manual_clock import ManualClock
from tests.broker.groups.simulation import REBALANCE_MS, SESSION_MS, offers, sync_request

DAY_MS = 86_400_000
A0 = TopicPartition("a", 0)


class Running:
    """A broker and short forms of requests to its coordinator."""

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
        await self.stabilize()

    async def stabilize(self) -> None:
        """Wait until the coordinator is idle."""
        await self.groups.idle()

    def join(
        self, member_id: str = "", group_id: str = "g", instance_id: str | None = None
    ) -> Awaitable[JoinGroupResponse]:
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

    async def member(self, group_id: str = "g", instance_id: str | None = None) -> JoinGroupResponse:
        """The only member of a group, with the assignment «all»."""
        joining = asyncio.ensure_future(self.join(group_id=group_id, instance_id=instance_id))
        await self.pass_ms(0)
        joined = await joining
        assert joined.error_code == ErrorCode.NONE
        synced = await self.sync(joined, group_id)
        assert synced is ErrorCode.NONE
        return joined

    async def sync(self, joined: JoinGroupResponse, group_id: str = "g") -> ErrorCode:
        assignments = {joined.member_id: b"all"}
        sync = sync_request(joined.member_id, joined.generation_id, assignments, group_id)
        return ErrorCode((await self.groups.sync(sync)).error_code)

    def heartbeat(
        self, joined: JoinGroupResponse, group_id: str = "g", instance_id: str | None = None
    ) -> ErrorCode:
        beat = HeartbeatRequest(
            group_id=group_id,
            member_id=joined.member_id,
            group_instance_id=instance_id,
            generation_id=joined.generation_id,
        )
        return ErrorCode(self.groups.heartbeat(beat).error_code)

    def leave(self, joined: JoinGroupResponse, group_id: str = "g") -> None:
        leaving = MemberIdentity(member_id=joined.member_id)
        self.groups.leave(LeaveGroupRequest(group_id=group_id, members=(leaving,)))

    async def commit(self, offset: int, group_id: str = "g", by: JoinGroupResponse | None = None) -> None:
        committed = CommittedOffset(
            offset=offset, leader_epoch=-1, metadata="", committed_at_ms=self.clock.now_ms()
        )
        committer = Committer()
        if by is not None:
            committer = Committer(member_id=by.member_id, generation=by.generation_id)
        await self.groups.offsets.commit(group_id, {A0: committed}, committer)

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
        await broker.stabilize()
        yield broker
    finally:
        await server.stop()


class JumpingClock(ManualClock):
    """The system clock is set to another time."""

    jump_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.jump_ms
