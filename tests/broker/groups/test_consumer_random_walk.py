"""Any order of joins, reports, losses, departures, new topics, full disks and restarts keeps the promises."""

from __future__ import annotations

import contextlib
import itertools
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.broker.groups.consumer_state import ConsumerGroupState, Epochs
from headrace.broker.groups.events import TimerKind
from headrace.broker.rejections import RequestRejected
from tests.broker.groups.consumer_simulation import ClassicClient, Client, Coordinator, SomeTopics

TOPICS = ("a", "b", "c")
CLIENTS_MAX = 6


class ConsumerWalk(RuleBasedStateMachine):
    limits: ClassVar[dict[str, int]] = {}

    def __init__(self) -> None:
        super().__init__()
        self.topics = SomeTopics(a=4, b=3)
        self.coordinator = Coordinator(self.topics, **self.limits)
        self.clients: list[Client] = []
        self.classics: list[ClassicClient] = []
        self.ids = itertools.count()
        self.epochs = Epochs()
        self.member_epochs: dict[str, int] = {}

    @property
    def all_clients(self) -> list[Client | ClassicClient]:
        return [*self.clients, *self.classics]

    def pick(self, data: st.DataObject) -> Client:
        return data.draw(st.sampled_from(self.clients))

    # Clients

    @precondition(lambda self: len(self.all_clients) < CLIENTS_MAX)
    @rule(
        topics=st.lists(st.sampled_from(TOPICS), max_size=3, unique=True),
        pattern=st.none() | st.sampled_from(["", "a|b", ".*"]),
        assignor=st.none() | st.sampled_from(["uniform", "range"]),
        is_static=st.booleans(),
    )
    def join(self, topics: list[str], pattern: str | None, assignor: str | None, is_static: bool) -> None:
        member_id = f"m{next(self.ids)}"
        client = Client(
            coordinator=self.coordinator,
            member_id=member_id,
            topics=tuple(topics),
            pattern=pattern,
            assignor=assignor,
            instance_id=f"i-{member_id}" if is_static else None,
        )
        self.clients.append(client)
        client.beat()

    @precondition(lambda self: self.clients and len(self.all_clients) < CLIENTS_MAX)
    @rule(topics=st.lists(st.sampled_from(TOPICS), min_size=1, unique=True), is_eager=st.booleans())
    def join_as_classic(self, topics: list[str], is_eager: bool) -> None:
        client = ClassicClient(
            coordinator=self.coordinator,
            member_id=f"k{next(self.ids)}",
            topics=tuple(topics),
            is_eager=is_eager,
        )
        self.classics.append(client)
        client.rejoin()

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_response_lost=st.booleans(), revokes=st.booleans())
    def report(self, data: st.DataObject, is_response_lost: bool, revokes: bool) -> None:
        client = self.pick(data)
        if revokes and client.epoch:
            client.revoke()
        client.beat(is_response_lost=is_response_lost)

    @precondition(lambda self: self.classics)
    @rule(data=st.data())
    def report_as_classic(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.classics)).beat()

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), topics=st.lists(st.sampled_from(TOPICS), max_size=3, unique=True))
    def subscribe_to_something_else(self, data: st.DataObject, topics: list[str]) -> None:
        client = self.pick(data)
        client.topics, client.is_full = tuple(topics), True
        client.beat()

    @precondition(lambda self: self.all_clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.all_clients))
        try:
            client.leave()
        except RequestRejected:
            self.expire(
                TimerKind.SESSION, client.member_id
            )  # the broker did not get it, so the session times out
        self.forget(client)

    @precondition(lambda self: any(client.instance_id for client in self.clients))
    @rule(data=st.data())
    def return_with_another_id(self, data: st.DataObject) -> None:
        static = [client for client in self.clients if client.instance_id]
        client = data.draw(st.sampled_from(static))
        with contextlib.suppress(RequestRejected):
            client.leave(epoch=-2)
            client.member_id = f"m{next(self.ids)}"
            client.beat()

    # Faults

    @precondition(lambda self: self.all_clients)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        client = data.draw(st.sampled_from(self.all_clients))
        self.forget(client)
        self.expire(TimerKind.SESSION, client.member_id)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def take_too_long_to_revoke(self, data: st.DataObject) -> None:
        client = self.pick(data)
        if self.expire(TimerKind.REBALANCE, client.member_id):
            client.forget()

    def expire(self, kind: TimerKind, member_id: str) -> bool:
        self.coordinator.is_disk_full = False
        return self.coordinator.time_out(kind, member_id)

    def forget(self, client: Client | ClassicClient) -> None:
        if isinstance(client, Client):
            self.clients.remove(client)
        else:
            self.classics.remove(client)

    @rule(name=st.sampled_from(TOPICS), more=st.integers(1, 3))
    def create_or_extend_a_topic(self, name: str, more: int) -> None:
        known = self.topics.get(name)
        self.topics.put(name, more + (known.partition_count if known else 0))

    @rule(name=st.sampled_from(TOPICS))
    def delete_a_topic(self, name: str) -> None:
        if self.topics.get(name) is not None:
            self.topics.remove(name)

    @rule(by_ms=st.integers(-20, 20))
    def clock_jumps(self, by_ms: int) -> None:
        self.coordinator.now_ms += by_ms

    @rule(is_full=st.booleans())
    def disk_fills_or_is_freed(self, is_full: bool) -> None:
        self.coordinator.is_disk_full = is_full

    @rule()
    def restart(self) -> None:
        before = self.coordinator.group
        self.coordinator.restart()
        after = self.coordinator.group
        assert (after.epochs, after.members, after.targets) == (before.epochs, before.members, before.targets)
        assert after.patterns.keys() >= {*before.used_patterns()}

    # Invariants

    @invariant()
    def no_two_clients_read_one_partition(self) -> None:
        owned = [place for client in self.all_clients for place in client.owned]
        assert len(owned) == len({*owned})

    @invariant()
    def no_partition_is_assigned_twice(self) -> None:
        group = self.coordinator.group
        places = [place for member in group.members.values() for place in member.owned_partitions()]
        assert len(places) == len({*places})
        assert {place: group.owner(place) for place in places} == {
            place: member.member_id
            for member in group.members.values()
            for place in member.owned_partitions()
        }

    @invariant()
    def epochs_only_grow(self) -> None:
        epochs = self.coordinator.group.epochs
        assert epochs.group >= self.epochs.group
        assert epochs.target >= self.epochs.target
        assert epochs.group >= epochs.target
        self.epochs = epochs
        members = self.coordinator.group.members.values()
        for member in members:
            assert member.epoch <= epochs.target
            if member.epoch > 0:
                assert member.epoch >= self.member_epochs.get(member.member_id, 0)
        self.member_epochs = {member.member_id: member.epoch for member in members}

    def teardown(self) -> None:
        """Without further changes, every member soon has an equal part, and every partition a reader."""
        self.coordinator.is_disk_full = False
        for _ in range(6 * CLIENTS_MAX):
            self.coordinator.now_ms += 1_000
            for client in self.clients:
                if client.epoch:
                    client.revoke()
                client.beat()
                self.no_two_clients_read_one_partition()
            for classic in self.classics:
                classic.beat()
                self.no_two_clients_read_one_partition()
        group = self.coordinator.group
        assert {*group.members} == {client.member_id for client in self.all_clients}
        if self.all_clients:
            assert group.state is ConsumerGroupState.STABLE
        wanted = self.topics.places(group.subscribed_topics())
        assert {place for client in self.all_clients for place in client.owned} == wanted


class ConsumerWalkOfBigGroups(ConsumerWalk):
    """The same with a group that can't be assigned at every change."""

    limits: ClassVar[dict[str, int]] = {"assigned_at_once_max": 0, "assigned_per_ms_max": 1}


WALK = settings(max_examples=60, stateful_step_count=40, deadline=None)

TestConsumerWalk = ConsumerWalk.TestCase
TestConsumerWalk.settings = WALK
TestConsumerWalkOfBigGroups = ConsumerWalkOfBigGroups.TestCase
TestConsumerWalkOfBigGroups.settings = WALK
