"""The phases of a rebalance, one function at a time."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.broker.groups.events import ArmTimer, CancelTimer, Respond, StoreGroup, TimerKind, failed_join
from headrace.broker.groups.rebalance import (
    Step,
    complete_join_phase,
    join_phase_expired,
    prepare_rebalance,
    release_syncs,
    remove_members,
    sync_arrived,
    sync_phase_expired,
)
from headrace.broker.groups.state import Group, GroupLimits, GroupState, InitialDelay, Member, Trigger
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.join_group import JoinGroupResponse
from headrace.protocol.messages.sync_group import SyncGroupResponse
from tests.broker.groups.simulation import LIMITS, REBALANCE_MS, SESSION_MS, offers


def member(member_id: str, **fields: object) -> Member:
    made = Member(
        member_id=member_id,
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        protocols=offers(),
    )
    return replace(made, **fields)


def step(state: GroupState, *members: Member, limits: GroupLimits = LIMITS, **fields: object) -> Step:
    group = Group(group_id="g", state=state, generation=3, protocol_type="consumer").put(*members)
    return Step(group=replace(group, **fields), limits=limits, now_ms=7)


def test_join_phase_ends_with_those_who_joined_and_absent_static_members() -> None:
    changing = step(
        GroupState.PREPARING_REBALANCE,
        member("absent"),
        member("static", instance_id="i"),
        member("joined", join_request=5),
        leader_id="absent",
    )
    complete_join_phase(changing)
    group = changing.group
    assert {*group.members} == {"static", "joined"}
    assert (group.state, group.generation, group.leader_id, group.protocol_name) == (
        GroupState.COMPLETING_REBALANCE,
        4,
        "joined",
        "range",
    )
    responses = {
        action.request: action.response for action in changing.actions if isinstance(action, Respond)
    }
    assert isinstance(responses[5], JoinGroupResponse)
    assert (responses[5].generation_id, [one.member_id for one in responses[5].members]) == (
        4,
        ["static", "joined"],
    )
    assert ArmTimer(kind=TimerKind.SYNC, after_ms=REBALANCE_MS) in changing.actions


def test_group_without_members_after_the_join_phase_is_empty_and_stored() -> None:
    changing = step(GroupState.PREPARING_REBALANCE, member("absent"), leader_id="absent")
    complete_join_phase(changing)
    assert (changing.group.state, changing.group.generation) == (GroupState.EMPTY, 4)
    assert changing.actions[-1] == StoreGroup(group=changing.group)


def test_join_phase_waits_while_all_members_are_absent_static_ones() -> None:
    changing = step(GroupState.PREPARING_REBALANCE, member("static", instance_id="i"))
    complete_join_phase(changing)
    assert (changing.group.state, changing.group.generation) == (GroupState.PREPARING_REBALANCE, 3)
    assert changing.actions[-1] == ArmTimer(kind=TimerKind.JOIN, after_ms=REBALANCE_MS)


def test_first_rebalance_waits_longer_while_members_arrive_and_not_beyond_its_time_out() -> None:
    limits = replace(LIMITS, initial_rebalance_delay_ms=100)
    changing = step(GroupState.EMPTY, member("m", join_request=1, rebalance_timeout_ms=250), limits=limits)
    prepare_rebalance(changing, Trigger.MEMBER_JOINED)
    assert changing.group.initial_delay == InitialDelay(delay_ms=100, remaining_ms=150)
    delays_ms = [100]
    while changing.group.initial_delay is not None:
        changing.group = replace(
            changing.group, initial_delay=replace(changing.group.initial_delay, was_joined=True)
        )
        changing.actions.clear()
        join_phase_expired(changing)
        delays_ms += [
            action.after_ms
            for action in changing.actions
            if isinstance(action, ArmTimer) and action.kind is TimerKind.JOIN
        ]
    assert delays_ms == [100, 100, 50]
    assert changing.group.state is GroupState.COMPLETING_REBALANCE


def test_rebalance_in_the_sync_phase_rejects_waiting_syncs_and_drops_the_assignment() -> None:
    changing = step(
        GroupState.COMPLETING_REBALANCE, member("m", sync_request=5, assignment=b"old"), is_assigning=True
    )
    prepare_rebalance(changing, Trigger.MEMBER_LEFT)
    assert (
        Respond(request=5, response=SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        in changing.actions
    )
    assert (changing.group.members["m"].assignment, changing.group.is_assigning) == (b"", False)
    assert changing.group.state is GroupState.PREPARING_REBALANCE


def test_members_that_never_sync_are_removed_and_the_others_rebalance() -> None:
    changing = step(GroupState.STABLE, member("late", is_sync_pending=True), member("synced"))
    sync_phase_expired(changing)
    assert {*changing.group.members} == {"synced"}
    assert changing.group.state is GroupState.PREPARING_REBALANCE
    nobody_late = step(GroupState.STABLE, member("synced"))
    sync_phase_expired(nobody_late)
    assert (nobody_late.group.state, nobody_late.actions) == (GroupState.STABLE, [])


def test_last_sync_ends_the_time_out_of_the_sync_phase() -> None:
    one, other = member("one", is_sync_pending=True), member("other", is_sync_pending=True)
    changing = step(GroupState.COMPLETING_REBALANCE, one, other)
    sync_arrived(changing, one)
    assert changing.actions == []
    sync_arrived(changing, other)
    assert changing.actions == [CancelTimer(kind=TimerKind.SYNC)]


def test_waiting_syncs_get_their_assignment_and_their_session_restarts() -> None:
    changing = step(GroupState.STABLE, member("m", sync_request=5, assignment=b"mine"), member("n"))
    release_syncs(changing)
    assert changing.actions == [
        Respond(request=5, response=SyncGroupResponse(protocol_type="consumer", assignment=b"mine")),
        ArmTimer(kind=TimerKind.SESSION, after_ms=SESSION_MS, member_id="m"),
    ]
    assert changing.group.members["m"].sync_request is None


def test_requests_of_a_removed_member_get_a_response() -> None:
    removed = member("m", join_request=4)
    changing = step(GroupState.PREPARING_REBALANCE, removed)
    remove_members(changing, removed)
    assert changing.group.members == {}
    assert changing.actions == [
        Respond(request=4, response=failed_join(ErrorCode.UNKNOWN_MEMBER_ID)),
        CancelTimer(kind=TimerKind.SESSION, member_id="m"),
    ]
