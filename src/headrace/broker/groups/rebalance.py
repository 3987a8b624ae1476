"""The rebalance of a classic group: join phase, sync phase, and removal of members.

Functions here change a `Step`, the only mutable object of the pure core: it exists while one event is handled.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.broker.groups.events import (
    Action,
    Answer,
    ArmTimer,
    CancelTimer,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    MemberMetadata,
    StoreGroup,
    SyncAnswer,
    TimerKind,
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


class Step(Struct, kw_only=True):
    """One event of a group: the group so far, and the actions to perform."""

    group: Group
    limits: GroupLimits
    now_ms: int
    actions: list[Action] = field(default_factory=list)

    def answer(
        self, request: int | None, answer: JoinAnswer | SyncAnswer | HeartbeatAnswer | LeaveAnswer
    ) -> None:
        if request is not None:
            self.actions.append(Answer(request=request, answer=answer))

    def arm(self, kind: TimerKind, after_ms: int, member_id: str = "") -> None:
        self.actions.append(ArmTimer(kind=kind, after_ms=after_ms, member_id=member_id))

    def arm_session(self, member: Member) -> None:
        self.arm(TimerKind.SESSION, member.session_timeout_ms, member.member_id)

    def cancel(self, kind: TimerKind, member_id: str = "") -> None:
        self.actions.append(CancelTimer(kind=kind, member_id=member_id))

    def move(self, trigger: Trigger) -> None:
        state = TRANSITIONS[self.group.state, trigger]
        self.group = replace(self.group, state=state, state_since_ms=self.now_ms)


def disturb(step: Step, trigger: Trigger) -> None:
    """The members are no longer those of the generation: start a rebalance, or continue a running one."""
    if (step.group.state, trigger) in TRANSITIONS:
        _begin_rebalance(step, trigger)
    else:
        complete_join_phase_if_all_joined(step)


def complete_join_phase_if_all_joined(step: Step) -> None:
    group = step.group
    # The first rebalance of a group ends with its delay, not with its first member.
    if group.state is GroupState.PREPARING_REBALANCE and group.initial_delay is None and group.all_joined:
        complete_join_phase(step)


def _begin_rebalance(step: Step, trigger: Trigger) -> None:
    if step.group.state is GroupState.COMPLETING_REBALANCE:
        # The assignment that members wait for will not come.
        release_syncs(step, ErrorCode.REBALANCE_IN_PROGRESS)
        forgotten = [replace(member, assignment=b"") for member in step.group.members.values()]
        step.group = step.group.put(*forgotten)
    settled = [replace(member, owes_sync=False) for member in step.group.members.values() if member.owes_sync]
    step.group = replace(step.group.put(*settled), is_assigning=False)
    step.cancel(TimerKind.SYNC_PHASE)
    if step.group.state is GroupState.EMPTY:
        _begin_first_rebalance(step, trigger)
        return
    step.move(trigger)
    if step.group.all_joined:
        complete_join_phase(step)
    else:
        step.arm(TimerKind.JOIN_PHASE, step.group.rebalance_timeout_ms)


def _begin_first_rebalance(step: Step, trigger: Trigger) -> None:
    delay_ms = step.limits.initial_rebalance_delay_ms
    remaining_ms = max(step.group.rebalance_timeout_ms - delay_ms, 0)
    step.move(trigger)
    step.group = replace(step.group, initial_delay=InitialDelay(delay_ms=delay_ms, remaining_ms=remaining_ms))
    step.arm(TimerKind.JOIN_PHASE, delay_ms)


def join_phase_expired(step: Step) -> None:
    if step.group.state is not GroupState.PREPARING_REBALANCE:
        return
    delay = step.group.initial_delay
    if delay is not None and delay.was_joined and delay.remaining_ms > 0:
        delay_ms = min(step.limits.initial_rebalance_delay_ms, delay.remaining_ms)
        longer = InitialDelay(delay_ms=delay_ms, remaining_ms=max(delay.remaining_ms - delay.delay_ms, 0))
        step.group = replace(step.group, initial_delay=longer)
        step.arm(TimerKind.JOIN_PHASE, delay_ms)
        return
    complete_join_phase(step)


def complete_join_phase(step: Step) -> None:
    """Continue with the members that have joined; static members may be absent, others are removed."""
    step.cancel(TimerKind.JOIN_PHASE)
    absent = [
        member
        for member in step.group.members.values()
        if member.join_request is None and member.instance_id is None
    ]
    remove_members(step, absent)
    if step.group.members and not _elect_leader(step):
        # Only static members are left and all are absent: their sessions decide.
        step.arm(TimerKind.JOIN_PHASE, step.group.rebalance_timeout_ms)
        return
    step.group = replace(step.group, generation=step.group.generation + 1, initial_delay=None)
    if step.group.members:
        _begin_sync_phase(step)
    else:
        step.group = replace(step.group, protocol_name=None, leader_id=None)
        step.move(Trigger.NOBODY_JOINED)
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


def _begin_sync_phase(step: Step) -> None:
    step.group = replace(step.group, protocol_name=step.group.select_protocol())
    step.move(Trigger.ALL_JOINED)
    group = step.group
    for member in group.members.values():
        step.answer(member.join_request, current_generation(group, member.member_id))
        step.arm_session(member)
    step.group = group.put(
        *(
            replace(member, join_request=None, is_new=False, owes_sync=True)
            for member in group.members.values()
        )
    )
    step.arm(TimerKind.SYNC_PHASE, group.rebalance_timeout_ms)


def current_generation(group: Group, member_id: str) -> JoinAnswer:
    """The answer to a member that has joined; the leader also gets the other members."""
    members: tuple[MemberMetadata, ...] = ()
    if member_id == group.leader_id:
        members = tuple(
            MemberMetadata(
                member_id=member.member_id,
                instance_id=member.instance_id,
                metadata=member.metadata_for(group.protocol_name),
            )
            for member in group.members.values()
        )
    return JoinAnswer(
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id or "",
        members=members,
    )


def sync_phase_expired(step: Step) -> None:
    """Remove members that have joined and never asked for their assignment."""
    late = [member for member in step.group.members.values() if member.owes_sync]
    if late:
        remove_members(step, late)
        disturb(step, Trigger.MEMBER_LEFT)


def sync_arrived(step: Step, member: Member) -> None:
    """A member has asked for its assignment; with the last one, the sync phase's time-out ends."""
    step.group = step.group.put(replace(member, owes_sync=False))
    if not any(other.owes_sync for other in step.group.members.values()):
        step.cancel(TimerKind.SYNC_PHASE)


def release_syncs(step: Step, error: ErrorCode = ErrorCode.NONE) -> None:
    """Answer every sync that waits: with its member's assignment, or with an error."""
    waiting = [member for member in step.group.members.values() if member.sync_request is not None]
    for member in waiting:
        refused = SyncAnswer(error=error)
        step.answer(member.sync_request, refused if error else assignment_of(step.group, member))
        # A session time-out was ignored while its member waited, so its timer must be restarted.
        step.arm_session(member)
    step.group = step.group.put(*(replace(member, sync_request=None) for member in waiting))


def assignment_of(group: Group, member: Member) -> SyncAnswer:
    return SyncAnswer(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


def remove_members(step: Step, members: Iterable[Member]) -> None:
    """Remove members, and answer their requests. The caller starts the rebalance."""
    gone = [*members]
    for member in gone:
        step.answer(member.join_request, JoinAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID))
        step.answer(member.sync_request, SyncAnswer(error=ErrorCode.UNKNOWN_MEMBER_ID))
        step.cancel(TimerKind.SESSION, member.member_id)
    if gone:
        step.group = step.group.without(member.member_id for member in gone)
