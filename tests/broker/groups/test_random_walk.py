"""Any order of joins, syncs, heartbeats, departures, time-outs and disk failures keeps a group's promises."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.broker.groups.events import AssignmentStored, TimerKind
from headrace.broker.groups.state import GroupLimits, GroupState
from headrace.protocol.error_codes import ErrorCode
from tests.broker.groups.simulation import REBALANCE_MS, Simulation, offers

PROTOCOLS = st.sampled_from(
    [
        offers("range"),
        offers("range", "sticky"),
        offers("sticky", "range"),
        offers("range", metadata=b"other topics"),
        offers("sticky"),
    ]
)
INSTANCES = st.sampled_from(["a", "b"])
LIMITS = GroupLimits(members_max=4, initial_rebalance_delay_ms=500, new_member_join_timeout_ms=20_000)
LONG_MS = 10 * REBALANCE_MS


class GroupWalk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.sim = Simulation(LIMITS)
        self.generation_seen = 0
        # Who is who: a static member has many ids in its life and one name.
        self.names: dict[str, str] = {}
        self.joins: dict[int, str | None] = {}
        self.leaders: dict[int, set[str]] = {}
        self.given: dict[int, dict[str, bytes]] = {}

    # Clients, valid and invalid

    @rule(protocols=PROTOCOLS, known_id=st.booleans())
    def a_new_member_joins(self, protocols: Any, known_id: bool) -> None:
        self._join("", None, protocols=protocols, known_id=known_id)

    @rule(instance=INSTANCES, protocols=PROTOCOLS, can_skip=st.booleans())
    def a_static_member_starts(self, instance: str, protocols: Any, can_skip: bool) -> None:
        self._join("", instance, protocols=protocols, can_skip_assignment=can_skip)

    @rule(data=st.data(), protocols=PROTOCOLS)
    def a_member_joins_again(self, data: st.DataObject, protocols: Any) -> None:
        member_id = self._any_member(data)
        self._join(member_id, self._instance(member_id), protocols=protocols)

    @rule(data=st.data())
    def a_member_syncs(self, data: st.DataObject) -> None:
        self._sync(self._any_member(data))

    @precondition(lambda self: self.sim.group.state is GroupState.COMPLETING_REBALANCE)
    @rule()
    def the_leader_syncs(self) -> None:
        self._sync(self.sim.group.leader_id or "")

    @rule(data=st.data(), late=st.integers(0, 1))
    def a_member_sends_a_heartbeat(self, data: st.DataObject, late: int) -> None:
        member_id = self._any_member(data)
        generation = self.sim.group.generation - late
        self.sim.heartbeat(member_id, instance_id=self._instance(member_id), generation=generation)

    @rule(data=st.data())
    def a_member_leaves(self, data: st.DataObject) -> None:
        member_id = self._any_member(data)
        self.sim.leave((member_id, self._instance(member_id)))

    @rule(instance=INSTANCES)
    def a_static_member_is_removed(self, instance: str) -> None:
        self.sim.leave(("", instance))

    # Time and disk

    @rule(by_ms=st.sampled_from([0, 100, 1_000, 4_000, 9_999, 30_000]))
    def time_passes(self, by_ms: int) -> None:
        self.sim.advance(by_ms)

    @rule(fails=st.sampled_from([False, False, False, True]))
    def stores_finish(self, fails: bool) -> None:
        self.sim.finish_stores(ErrorCode.COORDINATOR_NOT_AVAILABLE if fails else ErrorCode.NONE)

    @rule()
    def all_rejoin_and_sync(self) -> None:
        """Takes the walk into stable states, which chance alone seldom finds."""
        sim = self.sim
        for _ in range(3):
            sim.advance(500)
            for member in [*sim.group.members.values()]:
                if sim.is_in(GroupState.PREPARING_REBALANCE) and member.join_request is None:
                    self._join(member.member_id, member.instance_id, protocols=member.protocols)
            for member in [*sim.group.members.values()]:
                if sim.is_in(GroupState.COMPLETING_REBALANCE):
                    self._sync(member.member_id)
            sim.finish_stores()

    # Invariants

    @invariant()
    def generations_only_grow(self) -> None:
        assert self.sim.group.generation >= self.generation_seen
        self.generation_seen = self.sim.group.generation

    @invariant()
    def every_waiting_request_is_known(self) -> None:
        waiting = [
            request
            for member in self.sim.group.members.values()
            for request in (member.join_request, member.sync_request)
            if request is not None
        ]
        assert sorted(waiting) == sorted(self.sim.waiting)

    @invariant()
    def a_generation_has_one_leader(self) -> None:
        for request, instance in self.joins.items():
            response = self.sim.responses.get(request)
            if response is None or response.error_code != ErrorCode.NONE:
                continue
            self.names.setdefault(response.member_id, instance or response.member_id)
            if response.leader == response.member_id:
                self.leaders.setdefault(response.generation_id, set()).add(self.names[response.member_id])
        assert all(len(names) == 1 for names in self.leaders.values()), self.leaders
        group = self.sim.group
        if group.state is GroupState.COMPLETING_REBALANCE:
            assert self.leaders[group.generation] == {self._name(group.leader_id or "")}, (
                "it knows that it leads"
            )

    @invariant()
    def stable_member_has_its_assignment_from_the_leader(self) -> None:
        group = self.sim.group
        if group.state is GroupState.STABLE:
            found = {self._name(member_id): member.assignment for member_id, member in group.members.items()}
            assert found == {name: self.given[group.generation].get(name, b"") for name in found}

    @invariant()
    def every_phase_has_a_time_out(self) -> None:
        group, timers = self.sim.group, self.sim.timers
        for member in group.members.values():
            is_safe = member.is_waiting and not member.is_new
            assert is_safe or (TimerKind.SESSION, member.member_id) in timers
        for member_id in group.pending_member_ids:
            assert (TimerKind.SESSION, member_id) in timers
        if group.state is GroupState.PREPARING_REBALANCE:
            assert (TimerKind.JOIN, "") in timers
        if group.state is GroupState.COMPLETING_REBALANCE:
            owing = any(member.is_sync_pending for member in group.members.values())
            assert (TimerKind.SYNC, "") in timers if owing else group.is_assigning

    @invariant()
    def counts_and_bounds_hold(self) -> None:
        group = self.sim.group
        members = group.members.values()
        assert len(members) <= LIMITS.members_max
        assert len(group.pending_member_ids) <= LIMITS.members_max
        assert group.joining_count == sum(member.join_request is not None for member in members)
        offered = Counter(offer.name for member in members for offer in member.protocols)
        assert group.protocol_counts == offered
        assert (group.state is GroupState.EMPTY) <= (not members)
        assert (group.leader_id in group.members) == bool(members)

    def teardown(self) -> None:
        for _ in range(5):
            self.sim.advance(LONG_MS)
            self.sim.finish_stores()
        assert not self.sim.waiting, "every request gets a response in the end"
        assert self.sim.group.state is GroupState.EMPTY
        assert not self.sim.timers

    def _join(self, member_id: str, instance: str | None, **changes: Any) -> None:
        # Shorter than a session, so that rebalances end while static members are away.
        changes["rebalance_timeout_ms"] = 4_000
        request = self.sim.join(member_id, instance_id=instance, **changes)
        self.joins[request] = instance

    def _sync(self, member_id: str) -> None:
        sim = self.sim
        gifts = {other: f"{sim.now_ms} {other}".encode() for other in sim.group.members}
        stores_before = len(sim.stores)
        mine = gifts if member_id == sim.group.leader_id else {}
        sim.sync(member_id, mine, instance_id=self._instance(member_id))
        if len(sim.stores) > stores_before:
            stored = sim.stores[-1].then
            assert isinstance(stored, AssignmentStored)
            self.given[stored.generation] = {self._name(other): gift for other, gift in gifts.items()}

    def _any_member(self, data: st.DataObject) -> str:
        group = self.sim.group
        candidates = [*group.members, *sorted(group.pending_member_ids), *self.names, "no member"]
        return data.draw(st.sampled_from(candidates))

    def _instance(self, member_id: str) -> str | None:
        member = self.sim.group.members.get(member_id)
        if member is not None:
            return member.instance_id
        name = self.names.get(member_id, member_id)
        return None if name == member_id else name

    def _name(self, member_id: str) -> str:
        return self._instance(member_id) or member_id


TestGroupWalk = GroupWalk.TestCase
TestGroupWalk.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
