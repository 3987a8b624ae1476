"""The rules of classic groups, without a broker."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from headrace.broker.groups.classic import check_commit
from headrace.broker.groups.events import AssignmentStored, TimerKind
from headrace.broker.groups.state import Group, GroupState
from headrace.protocol.error_codes import ErrorCode
from tests.broker.groups.simulation import LIMITS, REBALANCE_MS, SESSION_MS, Simulation, code_of, offers

E = ErrorCode


# Joining


def test_first_join_gets_an_id_and_must_be_repeated_with_it() -> None:
    sim = Simulation()
    response = sim.joined(sim.join())
    assert response.error_code == E.MEMBER_ID_REQUIRED
    request = sim.join(response.member_id)
    sim.advance(0)
    assert (sim.joined(request).error_code, sim.joined(request).member_id) == (E.NONE, response.member_id)


def test_old_client_joins_without_a_second_request() -> None:
    sim = Simulation()
    request = sim.join(known_id=False)
    sim.advance(0)
    assert sim.joined(request).error_code == E.NONE
    assert sim.joined(request).generation_id == 1


def test_id_that_is_not_used_within_the_session_expires() -> None:
    sim = Simulation()
    member_id = sim.joined(sim.join()).member_id
    sim.advance(SESSION_MS)
    assert sim.joined(sim.join(member_id)).error_code == E.UNKNOWN_MEMBER_ID
    assert not sim.group.pending_member_ids


def test_only_the_leader_gets_the_members() -> None:
    sim = Simulation()
    first = sim.member(protocols=offers(metadata=b"one"))
    second = sim.member(protocols=offers(metadata=b"two"))
    sim.advance(0)
    responses = {
        sim.responses[r].member_id: sim.responses[r]
        for r in sim.responses
        if sim.responses[r].generation_id == 1
    }
    assert {m.member_id: m.metadata for m in responses[first].members} == {first: b"one", second: b"two"}
    assert responses[second].members == ()
    assert responses[second].leader == first


def test_protocol_with_most_votes_among_those_that_all_offer_is_chosen() -> None:
    sim = Simulation()
    sim.member(protocols=offers("sticky", "range", "roundrobin"))
    sim.member(protocols=offers("roundrobin", "range"))
    sim.member(protocols=offers("only-here", "roundrobin", "range"))
    sim.advance(0)
    assert sim.group.protocol_name == "roundrobin"


@pytest.mark.parametrize(
    "changes",
    [{"protocols": offers("other")}, {"protocol_type": "connect"}, {"protocols": ()}],
    ids=["nothing in common", "another type", "no protocol"],
)
def test_member_without_a_common_protocol_is_rejected(changes: dict[str, Any]) -> None:
    sim = Simulation()
    sim.stable()
    assert sim.joined(sim.join(**changes)).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert sim.is_in(GroupState.STABLE)


@pytest.mark.parametrize("changes", [{"protocol_type": ""}, {"protocols": ()}])
def test_empty_group_needs_a_protocol(changes: dict[str, Any]) -> None:
    sim = Simulation()
    assert sim.joined(sim.join(**changes)).error_code == E.INCONSISTENT_GROUP_PROTOCOL


def test_full_group_rejects_new_members_and_keeps_its_own() -> None:
    sim = Simulation(replace(LIMITS, members_max=2))
    first, second = sim.stable({}, {})
    assert sim.joined(sim.join()).error_code == E.GROUP_MAX_SIZE_REACHED
    sim.join(first)
    sim.join(second)
    assert sim.is_in(GroupState.COMPLETING_REBALANCE)
    assert set(sim.group.members) == {first, second}


def test_pending_ids_count_towards_the_bound() -> None:
    sim = Simulation(replace(LIMITS, members_max=3))
    for _ in range(3):
        assert sim.joined(sim.join()).error_code == E.MEMBER_ID_REQUIRED
    assert sim.joined(sim.join()).error_code == E.GROUP_MAX_SIZE_REACHED


def test_first_rebalance_waits_for_more_members_and_longer_while_they_arrive() -> None:
    sim = Simulation(replace(LIMITS, initial_rebalance_delay_ms=3_000))
    sim.member()
    sim.advance(2_000)
    sim.member()
    sim.advance(2_000)
    assert sim.is_in(GroupState.PREPARING_REBALANCE)
    sim.advance(2_000)
    assert sim.is_in(GroupState.COMPLETING_REBALANCE)
    assert (sim.group.generation, len(sim.group.members)) == (1, 2)


def test_first_rebalance_never_waits_longer_than_the_rebalance_time_out() -> None:
    sim = Simulation(replace(LIMITS, initial_rebalance_delay_ms=3_000))
    sim.member(rebalance_timeout_ms=5_000)
    for _ in range(4):
        sim.advance(1_000)
        sim.member(rebalance_timeout_ms=5_000)
    assert sim.is_in(GroupState.PREPARING_REBALANCE)
    sim.advance(1_000)
    assert sim.is_in(GroupState.COMPLETING_REBALANCE)


def test_unchanged_follower_that_rejoins_gets_the_generation_without_a_rebalance() -> None:
    sim = Simulation()
    leader, follower = sim.stable({}, {})
    response = sim.joined(sim.join(follower))
    assert (response.error_code, response.generation_id, response.members) == (
        E.NONE,
        sim.group.generation,
        (),
    )
    assert sim.is_in(GroupState.STABLE)
    assert response.leader == leader


def test_leader_that_rejoins_starts_a_rebalance() -> None:
    sim = Simulation()
    leader, follower = sim.stable({}, {})
    sim.join(leader)
    assert sim.is_in(GroupState.PREPARING_REBALANCE)
    assert sim.heartbeat(follower) is E.REBALANCE_IN_PROGRESS


def test_follower_with_new_metadata_starts_a_rebalance() -> None:
    sim = Simulation()
    _, follower = sim.stable({}, {})
    sim.join(follower, protocols=offers(metadata=b"another topic"))
    assert sim.is_in(GroupState.PREPARING_REBALANCE)


def test_repeated_join_gets_the_same_response() -> None:
    sim = Simulation()
    member_id = sim.member()
    sim.advance(0)
    again = sim.joined(sim.join(member_id))
    assert (again.error_code, again.generation_id, len(again.members)) == (E.NONE, 1, 1)
    assert sim.is_in(GroupState.COMPLETING_REBALANCE)


def test_second_join_of_a_member_ends_the_first() -> None:
    sim = Simulation()
    leader, follower = sim.stable({}, {})
    earlier = sim.join(leader)
    later = sim.join(leader)
    assert sim.joined(earlier).error_code == E.REBALANCE_IN_PROGRESS
    sim.join(follower)
    assert sim.joined(later).error_code == E.NONE


def test_members_that_do_not_rejoin_in_time_are_removed_and_the_others_continue() -> None:
    sim = Simulation()
    leader, follower = sim.stable({}, {})
    request = sim.join(follower, protocols=offers(metadata=b"new"))
    for _ in range(REBALANCE_MS // 1_000):
        sim.heartbeat(leader)
        sim.advance(1_000)
    response = sim.joined(request)
    assert (response.error_code, response.leader, len(response.members)) == (E.NONE, follower, 1)
    assert set(sim.group.members) == {follower}
    assert sim.heartbeat(leader) is E.UNKNOWN_MEMBER_ID


def test_first_join_times_out() -> None:
    sim = Simulation(replace(LIMITS, new_member_join_timeout_ms=5_000))
    [old] = sim.stable()
    pending = sim.joined(sim.join()).member_id
    request = sim.join(pending)
    sim.heartbeat(old)
    sim.advance(5_000)
    assert sim.joined(request).error_code == E.UNKNOWN_MEMBER_ID


# Syncing


def test_every_member_gets_its_assignment_from_the_leader() -> None:
    sim = Simulation()
    first, second = sim.member(), sim.member()
    sim.advance(0)
    waiting = sim.sync(second)
    leading = sim.sync(first, {first: b"1", second: b"2", "stranger": b"3"})
    assert sim.waiting == {waiting, leading}, "no member gets its assignment before it is stored"
    sim.finish_stores()
    assert (sim.synced(leading).assignment, sim.synced(waiting).assignment) == (b"1", b"2")
    assert sim.is_in(GroupState.STABLE)


def test_member_without_an_assignment_from_the_leader_gets_an_empty_one() -> None:
    sim = Simulation()
    first, second = sim.member(), sim.member()
    sim.advance(0)
    waiting = sim.sync(second)
    sim.sync(first, {first: b"1"})
    sim.finish_stores()
    assert sim.synced(waiting) == replace(sim.synced(waiting), error_code=E.NONE, assignment=b"")


def test_sync_in_a_stable_group_gets_its_response_immediately() -> None:
    sim = Simulation()
    first, second = sim.member(), sim.member()
    sim.advance(0)
    sim.sync(first, {second: b"2"})
    sim.finish_stores()
    assert sim.synced(sim.sync(second)).assignment == b"2"


def test_assignment_that_cannot_be_stored_is_not_used() -> None:
    sim = Simulation()
    first, second = sim.member(), sim.member()
    sim.advance(0)
    requests = [sim.sync(second), sim.sync(first, {second: b"2"})]
    sim.finish_stores(E.COORDINATOR_NOT_AVAILABLE)
    assert [sim.synced(r).error_code for r in requests] == [E.COORDINATOR_NOT_AVAILABLE] * 2
    assert sim.is_in(GroupState.PREPARING_REBALANCE)
    assert sim.heartbeat(first) is E.REBALANCE_IN_PROGRESS


def test_assignment_of_an_old_generation_is_ignored() -> None:
    sim = Simulation()
    [first] = sim.stable()
    stale = AssignmentStored(generation=sim.group.generation, assignments={first: b"stale"})
    sim.join(first)
    assert sim.is_in(GroupState.COMPLETING_REBALANCE)
    sim.apply(stale)
    assert sim.is_in(GroupState.COMPLETING_REBALANCE)


def test_join_during_the_sync_phase_rejects_the_waiting_syncs() -> None:
    sim = Simulation()
    sim.member()
    second = sim.member()
    sim.advance(0)
    waiting = sim.sync(second)
    sim.member()
    assert sim.synced(waiting).error_code == E.REBALANCE_IN_PROGRESS
    assert sim.is_in(GroupState.PREPARING_REBALANCE)


def test_members_that_never_sync_are_removed_after_the_rebalance_time_out() -> None:
    sim = Simulation()
    first, second = sim.member(), sim.member()
    sim.advance(0)
    sim.sync(first, {first: b"1"})
    sim.finish_stores()
    for _ in range(REBALANCE_MS // 1_000):
        sim.heartbeat(first)
        sim.heartbeat(second)
        sim.advance(1_000)
    assert set(sim.group.members) == {first}
    assert sim.is_in(GroupState.PREPARING_REBALANCE)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"generation": 7}, E.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "other"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "no member"}, E.UNKNOWN_MEMBER_ID),
        ({"instance_id": "no member"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_sync_that_does_not_fit_is_rejected(changes: dict[str, Any], error: ErrorCode) -> None:
    sim = Simulation()
    [member_id] = sim.stable()
    request = sim.sync(**{"member_id": member_id, **changes})
    assert sim.synced(request).error_code == error


# Staying and leaving


def test_member_that_sends_heartbeats_stays() -> None:
    sim = Simulation()
    [member_id] = sim.stable()
    for _ in range(10):
        sim.advance(SESSION_MS - 1)
        assert sim.heartbeat(member_id) is E.NONE


def test_member_without_heartbeats_is_removed_after_its_session_and_the_group_rebalances() -> None:
    sim = Simulation()
    leader, follower = sim.stable({}, {})
    sim.advance(SESSION_MS - 1)
    sim.heartbeat(follower)
    sim.advance(1)
    assert set(sim.group.members) == {follower}
    assert sim.heartbeat(follower) is E.REBALANCE_IN_PROGRESS
    assert sim.heartbeat(leader) is E.UNKNOWN_MEMBER_ID


def test_member_whose_join_waits_needs_no_heartbeats() -> None:
    sim = Simulation()
    leader, follower = sim.stable({}, {})
    request = sim.join(leader)
    for _ in range(5):
        sim.advance(SESSION_MS - 1)
        sim.heartbeat(follower)
    sim.join(follower)
    assert sim.joined(request).error_code == E.NONE


def test_session_restarts_after_a_join() -> None:
    sim = Simulation()
    [member_id] = sim.stable()
    sim.join(member_id)
    sim.all_sync()
    sim.advance(SESSION_MS)
    assert sim.is_in(GroupState.EMPTY)


def test_heartbeat_of_another_generation_is_rejected() -> None:
    sim = Simulation()
    [member_id] = sim.stable()
    assert sim.heartbeat(member_id, generation=sim.group.generation - 1) is E.ILLEGAL_GENERATION


def test_group_is_empty_when_the_last_member_leaves_and_that_is_stored() -> None:
    sim = Simulation()
    [member_id] = sim.stable()
    generation = sim.group.generation
    assert sim.leave((member_id, None)) == [E.NONE]
    assert (sim.group.state, sim.group.generation) == (GroupState.EMPTY, generation + 1)
    assert sim.group.leader_id is None
    assert sim.stores[-1].group == sim.group
    assert sim.group.protocol_type == "consumer", "so that its offsets live for the retention from now on"


def test_others_rebalance_when_a_member_leaves() -> None:
    sim = Simulation()
    leader, follower = sim.stable({}, {})
    assert sim.leave((leader, None)) == [E.NONE]
    assert sim.heartbeat(follower) is E.REBALANCE_IN_PROGRESS


def test_waiting_requests_of_a_member_that_leaves_get_a_response() -> None:
    sim = Simulation()
    sim.member()
    second = sim.member()
    sim.advance(0)
    waiting = sim.sync(second)
    sim.leave((second, None))
    assert sim.synced(waiting).error_code == E.UNKNOWN_MEMBER_ID


def test_leave_has_a_result_for_each_member() -> None:
    sim = Simulation()
    sim.stable({"instance_id": "static"}, {})
    pending = sim.joined(sim.join()).member_id
    leaving: list[tuple[str, str | None]] = [
        ("", "static"),
        ("", "static"),
        ("no member", None),
        ("wrong", "static"),
        (pending, None),
        ("", None),
    ]
    unknown = E.UNKNOWN_MEMBER_ID
    assert sim.leave(*leaving) == [E.NONE, unknown, unknown, unknown, E.NONE, unknown]


# Static members


def test_static_member_that_returns_keeps_its_assignment_without_a_rebalance() -> None:
    sim = Simulation()
    leader, static = sim.stable({}, {"instance_id": "static"})
    generation = sim.group.generation
    request = sim.join(instance_id="static")
    assert sim.waiting == {request}, "its new id is stored first"
    sim.finish_stores()
    response = sim.joined(request)
    assert (response.error_code, response.generation_id) == (E.NONE, generation)
    assert response.member_id != static
    assert (
        sim.synced(sim.sync(response.member_id, instance_id="static")).assignment == f"of {static}".encode()
    )
    assert sim.heartbeat(leader) is E.NONE


def test_static_leader_that_returns_still_leads_and_does_not_assign_again() -> None:
    sim = Simulation()
    sim.stable({"instance_id": "static"}, {})
    request = sim.join(instance_id="static")
    sim.finish_stores()
    response = sim.joined(request)
    assert (response.leader, response.skip_assignment) == (response.member_id, True)
    assert len(response.members) == 2


def test_static_leader_without_skip_assignment_returns_as_follower() -> None:
    sim = Simulation()
    leader, _ = sim.stable({"instance_id": "static"}, {})
    request = sim.join(instance_id="static", can_skip_assignment=False)
    sim.finish_stores()
    response = sim.joined(request)
    assert (response.leader, response.members, response.skip_assignment) == (leader, (), False)


def test_static_member_that_returns_with_another_protocol_starts_a_rebalance() -> None:
    sim = Simulation()
    sim.stable({"instance_id": "static", "protocols": offers("range", "sticky")})
    sim.join(instance_id="static", protocols=offers("sticky"))
    assert (sim.group.state, sim.group.protocol_name) == (GroupState.COMPLETING_REBALANCE, "sticky")


def test_old_id_of_a_static_member_is_fenced() -> None:
    sim = Simulation()
    [old] = sim.stable({"instance_id": "static"})
    sim.join(instance_id="static")
    sim.finish_stores()
    assert sim.heartbeat(old, instance_id="static") is E.FENCED_INSTANCE_ID
    assert sim.synced(sim.sync(old, instance_id="static")).error_code == E.FENCED_INSTANCE_ID
    assert sim.joined(sim.join(old, instance_id="static")).error_code == E.FENCED_INSTANCE_ID
    assert sim.leave((old, "static")) == [E.FENCED_INSTANCE_ID]


def test_waiting_request_of_a_fenced_member_gets_a_response() -> None:
    sim = Simulation()
    sim.stable({}, {"instance_id": "static"})
    [static] = [m.member_id for m in sim.group.members.values() if m.instance_id]
    waiting = sim.join(static, instance_id="static", protocols=offers(metadata=b"new"))
    sim.join(instance_id="static", protocols=offers(metadata=b"new"))
    assert sim.joined(waiting).error_code == E.FENCED_INSTANCE_ID


def test_static_id_that_cannot_be_stored_is_not_used() -> None:
    sim = Simulation()
    sim.stable({"instance_id": "static"})
    request = sim.join(instance_id="static")
    sim.finish_stores(E.COORDINATOR_NOT_AVAILABLE)
    assert sim.joined(request).error_code == E.COORDINATOR_NOT_AVAILABLE
    again = sim.join(instance_id="static")
    sim.finish_stores()
    assert sim.joined(again).error_code == E.NONE


def test_static_member_that_does_not_return_is_removed_after_its_session() -> None:
    sim = Simulation()
    leader, static = sim.stable({}, {"instance_id": "static"})
    sim.advance(SESSION_MS - 1)
    sim.heartbeat(leader)
    sim.advance(1)
    assert static not in sim.group.members
    assert sim.heartbeat(leader) is E.REBALANCE_IN_PROGRESS


def test_absent_static_member_keeps_its_membership_in_a_rebalance() -> None:
    sim = Simulation()
    sim.stable({}, {"instance_id": "static", "session_timeout_ms": REBALANCE_MS * 2})
    leader = sim.group.leader_id or ""
    request = sim.join(leader, protocols=offers(metadata=b"new"))
    sim.advance(REBALANCE_MS)
    response = sim.joined(request)
    assert (response.error_code, len(response.members)) == (E.NONE, 2)


def test_full_group_accepts_its_static_member_again() -> None:
    sim = Simulation(replace(LIMITS, members_max=2))
    sim.stable({"instance_id": "static"}, {})
    request = sim.join(instance_id="static")
    sim.finish_stores()
    assert sim.joined(request).error_code == E.NONE


# Committing


@pytest.mark.parametrize(
    ("member_id", "instance_id", "generation_change", "error"),
    [
        ("own", None, 0, E.NONE),
        ("own", None, -1, E.ILLEGAL_GENERATION),
        ("no member", None, 0, E.UNKNOWN_MEMBER_ID),
        ("", None, -1_000, E.UNKNOWN_MEMBER_ID),
        ("no member", "static", 0, E.FENCED_INSTANCE_ID),
    ],
)
def test_only_a_member_of_the_generation_commits(
    member_id: str, instance_id: str | None, generation_change: int, error: ErrorCode
) -> None:
    sim = Simulation()
    [own] = sim.stable({"instance_id": "static"})
    result = code_of(
        check_commit,
        sim.group,
        member_id=own if member_id == "own" else member_id,
        instance_id=instance_id,
        generation=sim.group.generation + generation_change,
    )
    assert result is error


def test_client_without_a_generation_commits_for_an_empty_group() -> None:
    group = Group(group_id="g", generation=3)
    assert code_of(check_commit, group, member_id="", instance_id=None, generation=-1) is E.NONE
    assert code_of(check_commit, group, member_id="m", instance_id=None, generation=3) is E.UNKNOWN_MEMBER_ID


def test_commit_is_rejected_in_the_sync_phase_and_not_in_the_join_phase() -> None:
    sim = Simulation()
    [member_id] = sim.stable()

    def commit(generation: int) -> ErrorCode:
        return code_of(check_commit, sim.group, member_id=member_id, instance_id=None, generation=generation)

    sim.member()
    assert sim.is_in(GroupState.PREPARING_REBALANCE)
    assert commit(sim.group.generation) is E.NONE
    sim.join(member_id)
    assert sim.is_in(GroupState.COMPLETING_REBALANCE)
    assert commit(sim.group.generation) is E.REBALANCE_IN_PROGRESS


def test_stable_group_has_a_session_for_every_member_and_no_other_time_out() -> None:
    sim = Simulation()
    members = sim.stable({}, {}, {"instance_id": "static"})
    assert set(sim.timers) == {(TimerKind.SESSION, member_id) for member_id in members}
