"""A group without a broker: the pure rules, a time that the test moves, and a disk that answers when told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from headrace.broker.groups.classic import handle
from headrace.broker.groups.events import (
    Answer,
    ArmTimer,
    CancelTimer,
    Event,
    Heartbeat,
    Join,
    JoinAnswer,
    JoinPhaseExpired,
    Leave,
    LeavingMember,
    SessionExpired,
    StoreGroup,
    Sync,
    SyncAnswer,
    SyncPhaseExpired,
    TimerKind,
)
from headrace.broker.groups.state import Group, GroupLimits, GroupState, MemberProtocol
from headrace.protocol.error_codes import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 60_000
LIMITS = GroupLimits(members_max=8, initial_rebalance_delay_ms=0, new_member_join_timeout_ms=300_000)

Timer = tuple[TimerKind, str]


def offers(*names: str, metadata: bytes = b"") -> tuple[MemberProtocol, ...]:
    return tuple(MemberProtocol(name=name, metadata=metadata) for name in names or ("range",))


class Simulation:
    def __init__(self, limits: GroupLimits = LIMITS, group: Group | None = None) -> None:
        self.limits = limits
        self.group = group or Group(group_id="g")
        self.now_ms = 1_000_000
        self.timers: dict[Timer, int] = {}
        self.stores: list[StoreGroup] = []
        self.answers: dict[int, Any] = {}
        self.asked: set[int] = set()
        self._ids = 0

    # What happens

    def apply(self, event: Event) -> None:
        self.group, actions = handle(self.group, event, limits=self.limits, now_ms=self.now_ms)
        for action in actions:
            match action:
                case Answer():
                    assert action.request in self.asked
                    assert action.request not in self.answers, "a request was answered twice"
                    self.answers[action.request] = action.answer
                case ArmTimer():
                    self.timers[action.kind, action.member_id] = self.now_ms + action.after_ms
                case CancelTimer():
                    self.timers.pop((action.kind, action.member_id), None)
                case StoreGroup():
                    self.stores.append(action)

    def advance(self, by_ms: int) -> None:
        """Let time pass; what is due happens in its order and at its time."""
        end_ms = self.now_ms + by_ms
        while due := [timer for timer, at_ms in self.timers.items() if at_ms <= end_ms]:
            timer = min(due, key=self.timers.__getitem__)
            self.now_ms = max(self.now_ms, self.timers.pop(timer))
            kind, member_id = timer
            match kind:
                case TimerKind.SESSION:
                    self.apply(SessionExpired(member_id=member_id))
                case TimerKind.JOIN_PHASE:
                    self.apply(JoinPhaseExpired())
                case TimerKind.SYNC_PHASE:
                    self.apply(SyncPhaseExpired())
        self.now_ms = end_ms

    def disk_answers(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Everything that was to be stored is, or can't be."""
        stores, self.stores = self.stores, []
        for store in stores:
            if store.then is not None:
                self.apply(replace(store.then, error=error))

    # Requests

    def join(self, member_id: str = "", *, known_id: bool = True, **changes: Any) -> int:
        request = self._next_request()
        join = Join(
            request=request,
            member_id=member_id,
            new_member_id=f"m{request}",
            instance_id=None,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=offers(),
            needs_known_id=known_id,
            can_skip_assignment=True,
        )
        self.apply(replace(join, **changes))
        return request

    def sync(self, member_id: str, assignments: Mapping[str, bytes] | None = None, **changes: Any) -> int:
        request = self._next_request()
        sync = Sync(
            request=request,
            member_id=member_id,
            instance_id=None,
            generation=self.group.generation,
            protocol_type=None,
            protocol_name=None,
            assignments=assignments or {},
        )
        self.apply(replace(sync, **changes))
        return request

    def heartbeat(self, member_id: str, **changes: Any) -> ErrorCode:
        request = self._next_request()
        beat = Heartbeat(
            request=request, member_id=member_id, instance_id=None, generation=self.group.generation
        )
        self.apply(replace(beat, **changes))
        error: ErrorCode = self.answers[request].error
        return error

    def leave(self, *leaving: tuple[str, str | None]) -> list[ErrorCode]:
        request = self._next_request()
        members = tuple(LeavingMember(member_id=name, instance_id=instance) for name, instance in leaving)
        self.apply(Leave(request=request, members=members))
        return [error for _, error in self.answers[request].members]

    def _next_request(self) -> int:
        self._ids += 1
        self.asked.add(self._ids)
        return self._ids

    # What came of it

    def joined(self, request: int) -> JoinAnswer:
        answer = self.answers[request]
        assert isinstance(answer, JoinAnswer)
        return answer

    def synced(self, request: int) -> SyncAnswer:
        answer = self.answers[request]
        assert isinstance(answer, SyncAnswer)
        return answer

    def is_in(self, state: GroupState) -> bool:
        return self.group.state is state

    @property
    def unanswered(self) -> set[int]:
        return self.asked - self.answers.keys()

    def member(self, **changes: Any) -> str:
        """A new member whose join is under way; its id."""
        if changes.get("instance_id") is not None:
            return f"m{self.join(**changes)}"
        member_id = self.joined(self.join(**changes)).member_id
        self.join(member_id, **changes)
        return member_id

    def stable(self, *members: dict[str, Any]) -> list[str]:
        """A stable group of new members, each with an assignment that is called after it."""
        ids = [self.member(**member) for member in members or ({},)]
        self.advance(0)
        if self.group.state is GroupState.PREPARING_REBALANCE:
            self.everybody_rejoins()
        self.everybody_syncs()
        assert self.group.state is GroupState.STABLE
        return ids

    def everybody_rejoins(self) -> None:
        for member in [*self.group.members.values()]:
            if member.join_request is None:
                self.join(member.member_id, instance_id=member.instance_id, protocols=member.protocols)

    def everybody_syncs(self) -> None:
        assert self.group.leader_id is not None
        names = {member_id: f"of {member_id}".encode() for member_id in self.group.members}
        for member in [*self.group.members.values()]:
            mine = names if member.member_id == self.group.leader_id else {}
            self.sync(member.member_id, mine, instance_id=member.instance_id)
        self.disk_answers()
