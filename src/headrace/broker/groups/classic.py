"""The rules of the classic group protocol: what each request and each time-out does to a group.

`handle` is pure: the same group, event and time always give the same group and actions. Requests to groups
that don't exist, and the bounds of a session time-out, are the coordinator's matter.
"""

from __future__ import annotations

from msgspec.structs import replace

from headrace.broker.groups.events import (
    Action,
    AssignmentStored,
    Event,
    Join,
    MembersInherited,
    StaticMemberStored,
    StoreGroup,
    TimerExpired,
    TimerKind,
    failed_join,
    left,
    rejection,
)
from headrace.broker.groups.rebalance import (
    Step,
    assignment_of,
    complete_join_phase_if_all_joined,
    current_generation,
    join_phase_expired,
    prepare_rebalance,
    release_syncs,
    remove_members,
    sync_arrived,
    sync_phase_expired,
)
from headrace.broker.groups.state import UNKNOWN_MEMBER, Group, GroupLimits, GroupState, Member, Trigger
from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headrace.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from headrace.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(
    group: Group, event: Event, *, limits: GroupLimits, now_ms: int, request: int = 0
) -> tuple[Group, list[Action]]:
    """The changed group, and the actions to perform. `request` is the number of an event that is a request."""
    assert group.state is not GroupState.DEAD, "a dead group is removed immediately, so no event can reach it"
    step = Step(group=group, limits=limits, now_ms=now_ms, request=request)
    try:
        _apply(step, event)
    except RequestRejected as rejected:
        step.respond(request, rejection(event, rejected.code))
    return step.group, step.actions


def _apply(step: Step, event: Event) -> None:
    match event:
        case Join():
            _join(step, event)
        case SyncGroupRequest():
            _sync(step, event)
        case HeartbeatRequest():
            _heartbeat(step, event)
        case LeaveGroupRequest():
            _leave(step, event)
        case TimerExpired(kind=TimerKind.SESSION):
            _session_expired(step, event.member_id)
        case TimerExpired(kind=TimerKind.JOIN):
            join_phase_expired(step)
        case TimerExpired():
            sync_phase_expired(step)
        case MembersInherited():
            prepare_rebalance(step, Trigger.MEMBER_LEFT)
        case AssignmentStored():
            _assignment_stored(step, event)
        case StaticMemberStored():
            _static_member_stored(step, event)


def _join(step: Step, join: Join) -> None:
    if not _has_room(step.group, join, step.limits.members_max):
        _reject_new_member(step, join)
    elif not step.group.supports(join.protocol_type, join.protocols):
        raise RequestRejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    elif join.member_id == UNKNOWN_MEMBER:
        _join_without_id(step, join)
    elif join.member_id in step.group.pending_member_ids and join.instance_id is None:
        _add_member(step, join, join.member_id)
    else:
        _rejoin(step, join)


def _has_room(group: Group, join: Join, members_max: int) -> bool:
    member = group.members.get(join.member_id)
    if join.instance_id is not None and member is None:
        member = group.static_member(join.instance_id)
    if group.state is GroupState.PREPARING_REBALANCE:
        # Only joined members count, so the last ones to rejoin are rejected after the limit was lowered.
        is_joining = member is not None and member.join_request is not None
        if not is_joining and group.joining_count >= members_max:
            return False
    if member is not None or join.member_id in group.pending_member_ids:
        return True
    return len(group.members) + len(group.pending_member_ids) < members_max


def _reject_new_member(step: Step, join: Join) -> None:
    member = step.group.members.get(join.member_id)
    if member is not None:
        remove_members(step, member)
    step.group = replace(step.group, pending_member_ids=step.group.pending_member_ids - {join.member_id})
    step.respond(step.request, failed_join(ErrorCode.GROUP_MAX_SIZE_REACHED))
    if member is not None:
        prepare_rebalance(step, Trigger.MEMBER_LEFT)


def _join_without_id(step: Step, join: Join) -> None:
    absent = step.group.static_member(join.instance_id) if join.instance_id is not None else None
    if absent is not None:
        _replace_static_member(step, join, absent)
    elif join.instance_id is None and join.needs_known_id:
        pending = step.group.pending_member_ids | {join.new_member_id}
        step.group = replace(step.group, pending_member_ids=pending)
        step.arm(TimerKind.SESSION, join.session_timeout_ms, join.new_member_id)
        step.respond(step.request, failed_join(ErrorCode.MEMBER_ID_REQUIRED, join.new_member_id))
    else:
        _add_member(step, join, join.new_member_id)


def _add_member(step: Step, join: Join, member_id: str) -> None:
    group = step.group
    if group.initial_delay is not None:
        group = replace(group, initial_delay=replace(group.initial_delay, was_joined=True))
    member = Member(
        member_id=member_id,
        instance_id=join.instance_id,
        client_id=join.client_id,
        client_host=join.client_host,
        session_timeout_ms=join.session_timeout_ms,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        protocols=join.protocols,
        join_request=step.request,
        is_new=True,
    )
    if not group.members:
        group = replace(group, protocol_type=join.protocol_type, leader_id=member_id)
    step.group = replace(group.put(member), pending_member_ids=group.pending_member_ids - {member_id})
    # Until it gets the response it has no id to send heartbeats with, and its client may have disconnected.
    step.arm(TimerKind.SESSION, step.limits.new_member_join_timeout_ms, member_id)
    prepare_rebalance(step, Trigger.MEMBER_JOINED)


def _rejoin(step: Step, join: Join) -> None:
    group = step.group
    member = group.require_member(join.member_id, join.instance_id)
    leads_stable_group = group.state is GroupState.STABLE and join.member_id == group.leader_id
    is_repeated = member.protocols == join.protocols and not leads_stable_group
    if group.state is not GroupState.PREPARING_REBALANCE and is_repeated:
        # The response may be lost. The leader of a stable group rejoins because its topics have changed.
        step.respond(step.request, current_generation(group, join.member_id))
        return
    _update_member(step, member, join)
    prepare_rebalance(step, Trigger.MEMBER_CHANGED)


def _update_member(step: Step, member: Member, join: Join) -> Member:
    # Two requests for one member: its client has closed the connection of the earlier one.
    step.respond(member.join_request, failed_join(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
    updated = replace(
        member,
        protocols=join.protocols,
        session_timeout_ms=join.session_timeout_ms,
        rebalance_timeout_ms=join.rebalance_timeout_ms,
        join_request=step.request,
    )
    step.group = step.group.put(updated)
    return updated


def _replace_static_member(step: Step, join: Join, absent: Member) -> None:
    """A static member returns with a new id: a client that still uses the old one is fenced."""
    step.respond(absent.join_request, failed_join(ErrorCode.FENCED_INSTANCE_ID, absent.member_id))
    step.respond(absent.sync_request, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    step.cancel(TimerKind.SESSION, absent.member_id)
    leader_id_before = step.group.leader_id
    is_leader = leader_id_before == absent.member_id
    returned = replace(
        absent, member_id=join.new_member_id, join_request=None, sync_request=None, is_new=False
    )
    step.group = step.group.without([absent.member_id]).put(returned)
    step.group = replace(step.group, leader_id=returned.member_id if is_leader else leader_id_before)
    returned = _update_member(step, returned, join)
    step.arm_session(returned)
    is_stable = step.group.state is GroupState.STABLE
    if not is_stable or step.group.select_protocol() != step.group.protocol_name:
        prepare_rebalance(step, Trigger.MEMBER_CHANGED)
    else:
        # It returns in time and unchanged: the assignment is kept, and only the new id has to be stored.
        # A client without support for that gets its old id as the leader's, so that it does not assign again.
        can_skip = join.can_skip_assignment
        stored = StaticMemberStored(
            request=step.request,
            member_id=returned.member_id,
            leader_id=step.group.leader_id if can_skip else leader_id_before,
            skip_assignment=is_leader and can_skip,
        )
        step.actions.append(StoreGroup(group=step.group, then=stored, waits_for_disk=True))


def _static_member_stored(step: Step, event: StaticMemberStored) -> None:
    group = step.group
    member = group.members.get(event.member_id)
    if member is None or member.join_request != event.request or group.state is not GroupState.STABLE:
        return  # a rebalance has started in the meantime and responds to it
    step.group = group.put(replace(member, join_request=None))
    step.arm_session(member)
    if event.error is not ErrorCode.NONE:
        # It joins again and gets another id; the one that was not stored was never used.
        step.respond(event.request, failed_join(event.error))
        return
    response = current_generation(group, event.member_id)
    if not event.skip_assignment:
        response = replace(response, members=())
    step.respond(
        event.request,
        replace(response, leader=event.leader_id or "", skip_assignment=event.skip_assignment),
    )


def _sync(step: Step, sync: SyncGroupRequest) -> None:
    group = step.group
    member = _checked_sync(group, sync)
    if group.state is GroupState.STABLE:
        sync_arrived(step, member)
        step.respond(step.request, assignment_of(group, member))
        return
    # As with joins: the client has closed the connection of the earlier of two requests.
    step.respond(member.sync_request, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    sync_arrived(step, replace(member, sync_request=step.request))
    if sync.member_id == group.leader_id and not group.is_assigning:
        _store_assignment(step, sync)


def _checked_sync(group: Group, sync: SyncGroupRequest) -> Member:
    member = group.require_member(sync.member_id, sync.group_instance_id)
    if sync.generation_id != group.generation:
        raise RequestRejected(ErrorCode.ILLEGAL_GENERATION)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise RequestRejected(ErrorCode.REBALANCE_IN_PROGRESS)
    # Older clients do not name the protocol.
    is_type_known = sync.protocol_type in (None, group.protocol_type)
    if not is_type_known or sync.protocol_name not in (None, group.protocol_name):
        raise RequestRejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    return member


def _store_assignment(step: Step, sync: SyncGroupRequest) -> None:
    step.group = replace(step.group, is_assigning=True)
    # A copy, because the bytes of the request are a part of its connection's buffer.
    assignments = {part.member_id: bytes(part.assignment) for part in sync.assignments}
    stored = AssignmentStored(generation=step.group.generation, assignments=assignments)
    step.actions.append(StoreGroup(group=_with_assignments(step.group, stored), then=stored))


def _assignment_stored(step: Step, event: AssignmentStored) -> None:
    group = step.group
    if group.state is not GroupState.COMPLETING_REBALANCE or event.generation != group.generation:
        return  # another rebalance has started in the meantime
    if event.error is not ErrorCode.NONE:
        release_syncs(step, event.error)
        prepare_rebalance(step, Trigger.ASSIGNMENT_FAILED)
        return
    step.group = replace(_with_assignments(group, event), is_assigning=False)
    step.move(Trigger.ASSIGNED)
    release_syncs(step)


def _with_assignments(group: Group, stored: AssignmentStored) -> Group:
    return group.put(
        *(
            replace(member, assignment=stored.assignments.get(member.member_id, b""))
            for member in group.members.values()
        )
    )


def _heartbeat(step: Step, heartbeat: HeartbeatRequest) -> None:
    group = step.group
    member = group.require_member(heartbeat.member_id, heartbeat.group_instance_id)
    if heartbeat.generation_id != group.generation:
        raise RequestRejected(ErrorCode.ILLEGAL_GENERATION)
    step.arm_session(member)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise RequestRejected(ErrorCode.REBALANCE_IN_PROGRESS)
    step.respond(step.request, HeartbeatResponse())


def _leave(step: Step, leave: LeaveGroupRequest) -> None:
    results = tuple(left(member, _leave_one(step, member)) for member in leave.members)
    step.respond(step.request, LeaveGroupResponse(members=results))
    if step.group.state is not GroupState.EMPTY and any(not result.error_code for result in results):
        prepare_rebalance(step, Trigger.MEMBER_LEFT)


def _leave_one(step: Step, leaving: MemberIdentity) -> ErrorCode:
    group, instance_id = step.group, leaving.group_instance_id
    if leaving.member_id in group.pending_member_ids:
        step.cancel(TimerKind.SESSION, leaving.member_id)
        step.group = group.without([leaving.member_id])
        return ErrorCode.NONE
    # An administrator removes a static member by its instance id alone.
    by_instance = group.static_member(instance_id) if instance_id is not None else None
    try:
        if leaving.member_id == UNKNOWN_MEMBER and by_instance is not None:
            remove_members(step, by_instance)
        else:
            remove_members(step, group.require_member(leaving.member_id, instance_id))
    except RequestRejected as rejected:
        return rejected.code
    return ErrorCode.NONE


def _session_expired(step: Step, member_id: str) -> None:
    group = step.group
    if member_id in group.pending_member_ids:
        step.group = group.without([member_id])
        complete_join_phase_if_all_joined(step)
        return
    member = group.members.get(member_id)
    if member is None or (member.is_waiting and not member.is_new):
        return  # a member that waits for a response counts as alive
    remove_members(step, member)
    prepare_rebalance(step, Trigger.MEMBER_LEFT)


def check_commit(group: Group, *, member_id: str, instance_id: str | None, generation: int) -> None:
    """Raise RequestRejected unless this client may commit offsets for the group."""
    if generation < 0 and group.state is GroupState.EMPTY:
        return  # a tool, or a consumer that assigns partitions to itself
    group.require_member(member_id, instance_id)
    if generation != group.generation:
        raise RequestRejected(ErrorCode.ILLEGAL_GENERATION)
    if group.state is GroupState.COMPLETING_REBALANCE:
        raise RequestRejected(ErrorCode.REBALANCE_IN_PROGRESS)
