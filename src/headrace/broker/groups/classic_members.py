"""Performs the actions of the rules of classic groups: answers requests, runs time-outs, stores groups.

A request changes its group at once, when its method is called; only the answer waits.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from headrace.broker.groups.classic import handle
from headrace.broker.groups.events import (
    Answer,
    ArmTimer,
    CancelTimer,
    Event,
    Heartbeat,
    HeartbeatAnswer,
    Join,
    JoinAnswer,
    JoinPhaseExpired,
    Leave,
    LeaveAnswer,
    MembersInherited,
    SessionExpired,
    Stored,
    StoreGroup,
    Sync,
    SyncAnswer,
    SyncPhaseExpired,
    TimerKind,
)
from headrace.broker.groups.state import Group, GroupLimits
from headrace.broker.timers import Timers
from headrace.clock import Clock
from headrace.protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)

AnswerT = TypeVar("AnswerT", JoinAnswer, SyncAnswer, HeartbeatAnswer, LeaveAnswer)


class TimerKey(Struct, frozen=True):
    group_id: str
    kind: TimerKind
    member_id: str


class _Waiting(Struct, frozen=True):
    future: asyncio.Future[Any]
    answer: type[JoinAnswer] | type[SyncAnswer] | type[HeartbeatAnswer] | type[LeaveAnswer]


class ClassicMembers:
    def __init__(
        self,
        groups: dict[str, Group],
        *,
        limits: GroupLimits,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        store: Callable[[StoreGroup], None],
    ) -> None:
        self._groups = groups
        self._limits = limits
        self._loop = loop
        self._clock = clock
        self._store = store
        self.timers: Timers[TimerKey] = Timers(loop, clock, self._timer_due)
        self._waiting: dict[int, _Waiting] = {}
        self._request_numbers = itertools.count(1)

    def join(self, group: Group, join: Join) -> asyncio.Future[JoinAnswer]:
        return self._ask(group, join, JoinAnswer)

    def sync(self, group: Group, sync: Sync) -> asyncio.Future[SyncAnswer]:
        return self._ask(group, sync, SyncAnswer)

    def heartbeat(self, group: Group, heartbeat: Heartbeat) -> HeartbeatAnswer:
        return self._ask(group, heartbeat, HeartbeatAnswer).result()

    def leave(self, group: Group, leave: Leave) -> LeaveAnswer:
        return self._ask(group, leave, LeaveAnswer).result()

    def stored(self, group: Group, event: Stored) -> None:
        """The group was stored, or storing it has failed."""
        self._apply(group, event)

    def inherit(self, group: Group) -> None:
        """A group of the newer protocol becomes a classic group."""
        self._groups[group.group_id] = group
        for member_id in group.members:
            self.touch(group, member_id)
        self._apply(group, MembersInherited())

    def dissolve(self, group: Group) -> None:
        """The group becomes one of the newer protocol: members that wait here have to join again."""
        del self._groups[group.group_id]
        again = ErrorCode.REBALANCE_IN_PROGRESS
        for member in group.members.values():
            if member.join_request is not None:
                joined = JoinAnswer(error=again, member_id=member.member_id)
                self._answer(Answer(request=member.join_request, answer=joined))
            if member.sync_request is not None:
                self._answer(Answer(request=member.sync_request, answer=SyncAnswer(error=again)))
        for member_id in (*group.members, *group.pending_member_ids):
            self.timers.cancel(TimerKey(group.group_id, TimerKind.SESSION, member_id))
        for kind in (TimerKind.JOIN_PHASE, TimerKind.SYNC_PHASE):
            self.timers.cancel(TimerKey(group.group_id, kind, ""))

    def touch(self, group: Group, member_id: str) -> None:
        """The member is alive: restart its session time-out."""
        member = group.members.get(member_id)
        if member is not None:
            self.timers.arm(TimerKey(group.group_id, TimerKind.SESSION, member_id), member.session_timeout_ms)

    def close(self) -> None:
        """Stop the timers, and answer the requests that wait."""
        self.timers.close()
        for waiting in self._waiting.values():
            if not waiting.future.done():
                waiting.future.set_result(waiting.answer(error=ErrorCode.NOT_COORDINATOR))
        self._waiting.clear()

    def _ask(
        self, group: Group, event: Join | Sync | Heartbeat | Leave, answer: type[AnswerT]
    ) -> asyncio.Future[AnswerT]:
        future: asyncio.Future[AnswerT] = self._loop.create_future()
        number = next(self._request_numbers)
        self._waiting[number] = _Waiting(future, answer)
        self._apply(group, replace(event, request=number))
        return future

    def _apply(self, group: Group, event: Event) -> None:
        after, actions = handle(group, event, limits=self._limits, now_ms=self._clock.now_ms())
        if after is not group:  # a new group that refused its first member is not kept
            self._groups[group.group_id] = after
        if after.state is not group.state:
            _log_move(group, after, event)
        for action in actions:
            match action:
                case Answer():
                    self._answer(action)
                case ArmTimer():
                    key = TimerKey(after.group_id, action.kind, action.member_id)
                    self.timers.arm(key, action.after_ms)
                case CancelTimer():
                    self.timers.cancel(TimerKey(after.group_id, action.kind, action.member_id))
                case StoreGroup():
                    self._store(action)

    def _answer(self, action: Answer) -> None:
        waiting = self._waiting.pop(action.request, None)
        # The future is cancelled if the client has disconnected.
        if waiting is not None and not waiting.future.done():
            waiting.future.set_result(action.answer)

    def _timer_due(self, key: TimerKey) -> None:
        group = self._groups.get(key.group_id)
        if group is None:
            return
        match key.kind:
            case TimerKind.SESSION:
                self._apply(group, SessionExpired(member_id=key.member_id))
            case TimerKind.JOIN_PHASE:
                self._apply(group, JoinPhaseExpired())
            case TimerKind.SYNC_PHASE:
                self._apply(group, SyncPhaseExpired())


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
