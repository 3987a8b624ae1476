"""The rebalance of a classic group: join phase, sync phase, and removal of members.

Functions here change a `Step`, the only mutable object of the pure core: it exists while one event is handled.
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.broker.groups.events import (
    Action,
    ArmTimer,
    CancelTimer,
    Respond,
    Response,
    StoreGroup,
    TimerKind,
    failed_join,
)
from headrace.broker.groups.state import (
    TRANSITIONS,
    Group,
    GroupLimits,
    GroupState,
    InitialDelay,
    Member,
    Trigger,
)
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from headrace.protocol.messages.sync_group import SyncGroupResponse


class Step(Struct, kw_only=True):
    """One event of a group: the group so far, and the actions to perform."""

    group: Group
    limits: GroupLimits
    now_ms: int
    request: int = 0
    """The number of the request, if the event is one."""
    actions: list[Action] = field(default_factory=list)

    def respond(self, request: int | None, response: Response) -> None:
        if request is not None:
            self.actions.append(Respond(request=request, response=response))

    def arm(self, kind: TimerKind, after_ms: int, member_id: str = "") -> None:
        self.actions.append(ArmTimer(kind=kind, after_ms=after_ms, member_id=member_id))

    def arm_session(self, member: Member) -> None:
        self.arm(TimerKind.SESSION, member.session_timeout_ms, member.member_id)

    def cancel(self, kind: TimerKind, member_id: str = "") -> None:
        self.actions.append(CancelTimer(kind=kind, member_id=member_id))

    def move(self, trigger: Trigger) -> None:
        state = TRANSITIONS[self.group.state, trigger]
        self.group = replace(self.group, state=state, state_since_ms=self.now_ms)


def prepare_rebalance(step: Step, trigger: Trigger) -> None:
    """The members are no longer those of the generation: start a rebalance, or continue a running one."""
    if (step.group.state, trigger) in TRANSITIONS:
        _start_rebalance(step, trigger)
    else:
        complete_join_phase_if_all_joined(step)


def complete_join_phase_if_all_joined(step: Step) -> None:
    group = step.group
    # The first rebalance of a group ends with its delay, not with its first member.
    if group.state is GroupState.PREPARING_REBALANCE and group.initial_delay is None and group.all_joined:
        complete_join_phase(step)


def _start_rebalance(step: Step, trigger: Trigger) -> None:
    if step.group.state is GroupState.COMPLETING_REBALANCE:
        # There will be no assignment for the members that wait.
        release_syncs(step, ErrorCode.REBALANCE_IN_PROGRESS)
        step.group = step.group.put(
            *(replace(member, assignment=b"") for member in step.group.members.values())
        )
    waiting = [
        replace(member, is_sync_pending=False)
        for member in step.group.members.values()
        if member.is_sync_pending
    ]
    synced = step.group.put(*(replace(member, is_sync_pending=False) for member in waiting))
    step.group = replace(synced, is_assigning=False)
    step.cancel(TimerKind.SYNC)
    if step.group.state is GroupState.EMPTY:
        _start_first_rebalance(step, trigger)
        return
    step.move(trigger)
    if step.group.all_joined:
        complete_join_phase(step)
    else:
        step.arm(TimerKind.JOIN, step.group.rebalance_timeout_ms)


def _start_first_rebalance(step: Step, trigger: Trigger) -> None:
    delay_ms = step.limits.initial_rebalance_delay_ms
    remaining_ms = max(step.group.rebalance_timeout_ms - delay_ms, 0)
    step.move(trigger)
    step.group = replace(step.group, initial_delay=InitialDelay(delay_ms=delay_ms, remaining_ms=remaining_ms))
    step.arm(TimerKind.JOIN, delay_ms)


def join_phase_expired(step: Step) -> None:
    if step.group.state is not GroupState.PREPARING_REBALANCE:
        return
    delay = step.group.initial_delay
    if delay is not None and delay.was_joined and delay.remaining_ms > 0:
        delay_ms = min(step.limits.initial_rebalance_delay_ms, delay.remaining_ms)
        longer = InitialDelay(delay_ms=delay_ms, remaining_ms=max(delay.remaining_ms - delay.delay_ms, 0))
        step.group = replace(step.group, initial_delay=longer)
        step.arm(TimerKind.JOIN, delay_ms)
        return
    complete_join_phase(step)


def complete_join_phase(step: Step) -> None:
    """Continue with the members that have joined; static members may be absent, others are removed."""
    step.cancel(TimerKind.JOIN)
    absent = [
        member
        for member in step.group.members.values()
        if member.join_request is None and member.instance_id is None
    ]
    remove_members(step, *absent)
    if step.group.members and not _elect_leader(step):
        # Only static members are left and all are absent: their sessions decide.
        step.arm(TimerKind.JOIN, step.group.rebalance_timeout_ms)
        return
    step.group = replace(step.group, generation=step.group.generation + 1, initial_delay=None)
    if step.group.members:
        _start_sync_phase(step)
    else:
        step.group = replace(step.group, protocol_name=None, leader_id=None)
        step.move(Trigger.NONE_JOINED)
        step.actions.append(StoreGroup(group=step.group))


def _elect_leader(step: Step) -> bool:
    """The leader must have joined; otherwise another member becomes the leader."""
    members = step.group.members
    leader = members.get(step.group.leader_id or "")
    if leader is None or leader.join_request is None:
        leader = next((member for member in members.values() if member.join_request is not None), None)
    if leader is None:
        return False
    step.group = replace(step.group, leader_id=leader.member_id)
    return True


def _start_sync_phase(step: Step) -> None:
    step.group = replace(step.group, protocol_name=step.group.select_protocol())
    step.move(Trigger.ALL_JOINED)
    group = step.group
    for member in group.members.values():
        step.respond(member.join_request, current_generation(group, member.member_id))
        step.arm_session(member)
    step.group = group.put(
        *(
            replace(member, join_request=None, is_new=False, is_sync_pending=True)
            for member in group.members.values()
        )
    )
    step.arm(TimerKind.SYNC, group.rebalance_timeout_ms)


def current_generation(group: Group, member_id: str) -> JoinGroupResponse:
    """The response to a member that has joined; the leader also gets the other members."""
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        members=tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata_for(group.protocol_name),
            )
            for member in group.members.values()
            if member_id == group.leader_id
        ),
    )


def sync_phase_expired(step: Step) -> None:
    """Remove members that have joined and never requested their assignment."""
    late = [member for member in step.group.members.values() if member.is_sync_pending]
    if late:
        remove_members(step, *late)
        prepare_rebalance(step, Trigger.MEMBER_LEFT)


def sync_arrived(step: Step, member: Member) -> None:
    """A member has requested its assignment; with the last one, the sync phase's time-out ends."""
    step.group = step.group.put(replace(member, is_sync_pending=False))
    if not any(other.is_sync_pending for other in step.group.members.values()):
        step.cancel(TimerKind.SYNC)


def release_syncs(step: Step, error: ErrorCode = ErrorCode.NONE) -> None:
    """Respond to every sync that waits: with its member's assignment, or with an error."""
    waiting = [member for member in step.group.members.values() if member.sync_request is not None]
    for member in waiting:
        failed = SyncGroupResponse(error_code=error)
        step.respond(member.sync_request, failed if error else assignment_of(step.group, member))
        # A session time-out was ignored while its member waited, so its timer must be restarted.
        step.arm_session(member)
    step.group = step.group.put(*(replace(member, sync_request=None) for member in waiting))


def assignment_of(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


def remove_members(step: Step, *members: Member) -> None:
    """Remove members, and respond to their requests. The caller starts the rebalance."""
    for member in members:
        step.respond(member.join_request, failed_join(ErrorCode.UNKNOWN_MEMBER_ID))
        step.respond(member.sync_request, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
        step.cancel(TimerKind.SESSION, member.member_id)
    if members:
        step.group = step.group.without(member.member_id for member in members)
