"""Performs the actions of the rules of classic groups: responds to requests, runs time-outs, stores groups.

A request changes its group when its method is called; only the response waits.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from headrace.broker.groups.classic import handle
from headrace.broker.groups.events import (
    ArmTimer,
    CancelTimer,
    Event,
    MembersInherited,
    Request,
    Respond,
    Response,
    StoreGroup,
    TimerExpired,
    TimerKey,
    TimerKind,
    failed_join,
    rejection,
)
from headrace.broker.groups.state import Group, GroupLimits
from headrace.broker.runtime import Runtime
from headrace.broker.timers import Timers
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)


class _Waiting(Struct, frozen=True):
    future: asyncio.Future[Any]
    at_close: Response


class ClassicMembers:
    def __init__(
        self,
        runtime: Runtime,
        groups: dict[str, Group],
        *,
        store: Callable[[StoreGroup], None],
    ) -> None:
        self._groups = groups
        self._limits = GroupLimits(
            members_max=runtime.settings.group_members_max,
            initial_rebalance_delay_ms=runtime.settings.group_initial_rebalance_delay_ms,
            new_member_join_timeout_ms=runtime.settings.group_new_member_join_timeout_ms,
        )
        self._runtime = runtime
        self._store = store
        self.timers: Timers[TimerKey] = Timers(runtime.loop, runtime.clock, self._timer_due)
        self._waiting: dict[int, _Waiting] = {}
        self._request_numbers = itertools.count(1)

    def request(self, group: Group, request: Request) -> asyncio.Future[Any]:
        """The response to the request, when the rules have one."""
        future: asyncio.Future[Any] = self._runtime.loop.create_future()
        number = next(self._request_numbers)
        self._waiting[number] = _Waiting(future, rejection(request, ErrorCode.NOT_COORDINATOR))
        self.apply(group, request, number)
        return future

    def inherit(self, group: Group) -> None:
        """A group of the newer protocol becomes a classic group."""
        self._groups[group.group_id] = group
        for member_id in group.members:
            self.touch(group, member_id)
        self.apply(group, MembersInherited())

    def dissolve(self, group: Group) -> None:
        """The group becomes one of the newer protocol: members that wait here have to join again."""
        del self._groups[group.group_id]
        again = ErrorCode.REBALANCE_IN_PROGRESS
        for member in group.members.values():
            self._respond(member.join_request, failed_join(again, member.member_id))
            self._respond(member.sync_request, SyncGroupResponse(error_code=again))
        for member_id in (*group.members, *group.pending_member_ids):
            self.timers.cancel(TimerKey(group.group_id, TimerKind.SESSION, member_id))
        for kind in (TimerKind.JOIN, TimerKind.SYNC):
            self.timers.cancel(TimerKey(group.group_id, kind, ""))

    def touch(self, group: Group, member_id: str) -> None:
        """The member is alive: restart its session time-out."""
        member = group.members.get(member_id)
        if member is not None:
            self.timers.arm(TimerKey(group.group_id, TimerKind.SESSION, member_id), member.session_timeout_ms)

    def close(self) -> None:
        """Stop the timers, and respond to the requests that wait."""
        self.timers.close()
        for number, waiting in [*self._waiting.items()]:
            self._respond(number, waiting.at_close)

    def apply(self, group: Group, event: Event, request: int = 0) -> None:
        """Change a group by an event, and perform the actions that follow."""
        after, actions = handle(
            group, event, limits=self._limits, now_ms=self._runtime.clock.now_ms(), request=request
        )
        if after is not group:  # a new group that rejected its first member is not kept
            self._groups[group.group_id] = after
        if after.state is not group.state:
            _log_move(group, after, event)
        for action in actions:
            match action:
                case Respond():
                    self._respond(action.request, action.response)
                case ArmTimer():
                    key = TimerKey(after.group_id, action.kind, action.member_id)
                    self.timers.arm(key, action.after_ms)
                case CancelTimer():
                    self.timers.cancel(TimerKey(after.group_id, action.kind, action.member_id))
                case StoreGroup():
                    self._store(action)

    def _respond(self, number: int | None, response: Response) -> None:
        waiting = None if number is None else self._waiting.pop(number, None)
        # The future is cancelled if the client has disconnected.
        if waiting is not None and not waiting.future.done():
            waiting.future.set_result(response)

    def _timer_due(self, key: TimerKey) -> None:
        group = self._groups.get(key.group_id)
        if group is not None:
            self.apply(group, TimerExpired(kind=key.kind, member_id=key.member_id))


def _log_move(before: Group, after: Group, event: Event) -> None:
    logger.info(
        "group %r: %s -> %s",
        after.group_id,
        before.state.value,
        after.state.value,
        extra={
            "generation": after.generation,
            "members": len(after.members),
            "event": type(event).__name__,
        },
    )
