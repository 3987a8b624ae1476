"""A group without a broker: the pure rules, a time that the test advances, and stores that the test finishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from headrace.broker.groups.classic import handle
from headrace.broker.groups.events import (
    ArmTimer,
    CancelTimer,
    Event,
    Join,
    Respond,
    StoreGroup,
    TimerExpired,
    TimerKind,
)
from headrace.broker.groups.state import Group, GroupLimits, GroupState, MemberProtocol
from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest
from headrace.protocol.messages.join_group import JoinGroupResponse
from headrace.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headrace.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

SESSION_MS = 10_000
REBALANCE_MS = 60_000
LIMITS = GroupLimits(members_max=8, initial_rebalance_delay_ms=0, new_member_join_timeout_ms=300_000)

Timer = tuple[TimerKind, str]


def offers(*names: str, metadata: bytes = b"") -> tuple[MemberProtocol, ...]:
    return tuple(MemberProtocol(name=name, metadata=metadata) for name in names or ("range",))


def sync_request(
    member_id: str, generation: int, assignments: Mapping[str, bytes], group_id: str = "g"
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id=generation,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=name, assignment=assignment)
            for name, assignment in assignments.items()
        ),
    )


def code_of(check: Callable[..., object], *args: Any, **kwargs: Any) -> ErrorCode:
    """The code of the error that a check raises; NONE if it passes."""
    try:
        check(*args, **kwargs)
    except RequestRejected as rejected:
        return rejected.code
    return ErrorCode.NONE


class Simulation:
    def __init__(self, limits: GroupLimits = LIMITS, group: Group | None = None) -> None:
        self.limits = limits
        self.group = group or Group(group_id="g")
        self.now_ms = 1_000_000
        self.timers: dict[Timer, int] = {}
        self.stores: list[StoreGroup] = []
        self.responses: dict[int, Any] = {}
        self.requests: set[int] = set()
        self._ids = 0

    # Events

    def apply(self, event: Event, request: int = 0) -> None:
        self.group, actions = handle(
            self.group, event, limits=self.limits, now_ms=self.now_ms, request=request
        )
        for action in actions:
            match action:
                case Respond():
                    assert action.request in self.requests
                    assert action.request not in self.responses, "a request has one response"
                    self.responses[action.request] = action.response
                case ArmTimer():
                    self.timers[action.kind, action.member_id] = self.now_ms + action.after_ms
                case CancelTimer():
                    self.timers.pop((action.kind, action.member_id), None)
                case StoreGroup():
                    self.stores.append(action)

    def advance(self, by_ms: int) -> None:
        """Advance time; timers expire in their order and at their time."""
        end_ms = self.now_ms + by_ms
        while due := [timer for timer, at_ms in self.timers.items() if at_ms <= end_ms]:
            timer = min(due, key=self.timers.__getitem__)
            self.now_ms = max(self.now_ms, self.timers.pop(timer))
            kind, member_id = timer
            self.apply(TimerExpired(kind=kind, member_id=member_id))
        self.now_ms = end_ms

    def finish_stores(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Everything that was to be stored is, or can't be."""
        stores, self.stores = self.stores, []
        for store in stores:
            if store.then is not None:
                self.apply(replace(store.then, error=error))

    # Requests

    def join(self, member_id: str = "", *, known_id: bool = True, **changes: Any) -> int:
        request = self._next_request()
        join = Join(
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
        self.apply(replace(join, **changes), request)
        return request

    def sync(
        self,
        member_id: str,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        generation: int | None = None,
        **changes: Any,
    ) -> int:
        request = self._next_request()
        generation = self.group.generation if generation is None else generation
        sync = sync_request(member_id, generation, assignments or {})
        self.apply(replace(sync, group_instance_id=instance_id, **changes), request)
        return request

    def heartbeat(
        self, member_id: str, *, instance_id: str | None = None, generation: int | None = None
    ) -> ErrorCode:
        request = self._next_request()
        beat = HeartbeatRequest(
            group_id="g",
            member_id=member_id,
            group_instance_id=instance_id,
            generation_id=self.group.generation if generation is None else generation,
        )
        self.apply(beat, request)
        return ErrorCode(self.responses[request].error_code)

    def leave(self, *leaving: tuple[str, str | None]) -> list[ErrorCode]:
        request = self._next_request()
        members = tuple(
            MemberIdentity(member_id=name, group_instance_id=instance) for name, instance in leaving
        )
        self.apply(LeaveGroupRequest(group_id="g", members=members), request)
        return [ErrorCode(member.error_code) for member in self.responses[request].members]

    def _next_request(self) -> int:
        self._ids += 1
        self.requests.add(self._ids)
        return self._ids

    # Responses

    def joined(self, request: int) -> JoinGroupResponse:
        response = self.responses[request]
        assert isinstance(response, JoinGroupResponse)
        return response

    def synced(self, request: int) -> SyncGroupResponse:
        response = self.responses[request]
        assert isinstance(response, SyncGroupResponse)
        return response

    def is_in(self, state: GroupState) -> bool:
        return self.group.state is state

    @property
    def waiting(self) -> set[int]:
        return self.requests - self.responses.keys()

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
            self.all_rejoin()
        self.all_sync()
        assert self.group.state is GroupState.STABLE
        return ids

    def all_rejoin(self) -> None:
        for member in [*self.group.members.values()]:
            if member.join_request is None:
                self.join(member.member_id, instance_id=member.instance_id, protocols=member.protocols)

    def all_sync(self) -> None:
        assert self.group.leader_id is not None
        names = {member_id: f"of {member_id}".encode() for member_id in self.group.members}
        for member in [*self.group.members.values()]:
            mine = names if member.member_id == self.group.leader_id else {}
            self.sync(member.member_id, mine, instance_id=member.instance_id)
        self.finish_stores()
