"""The rules of leases, without a broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import AcknowledgeType
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.gateway.queues import leases as module
from headrace.gateway.queues.leases import Lease, Leases, LeaseState


def lease(number: int, key: bytes | None = None) -> Lease:
    message = SimpleNamespace(key=key, partition=0)
    return Lease(number=number, message=cast("Any", message), consumer=cast("Any", object()), until_s=1.0)


def test_messages_are_taken_in_their_order_and_once() -> None:
    leases = Leases()
    leases.add([lease(1), lease(2), lease(3)])
    assert [each.number for each in leases.take(2)] == [1, 2]
    assert [each.number for each in leases.take(2)] == [3]
    assert leases.take(1) == []


def test_outcome_is_remembered_and_the_oldest_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DONE_MAX", 2)
    leases = Leases()
    made = [lease(each) for each in range(3)]
    leases.add(made)
    for each in leases.take(3):
        leases.begin(each)
        leases.end(each, AcknowledgeType.ACCEPT)
    assert [leases.outcome(each) for each in range(3)] == [
        None,
        AcknowledgeType.ACCEPT,
        AcknowledgeType.ACCEPT,
    ]
    assert (len(leases), [len(leases.of(each.consumer)) for each in made]) == (0, [0, 0, 0])


def test_message_that_could_not_be_acknowledged_is_still_held() -> None:
    leases = Leases()
    leases.add([lease(1)])
    (held,) = leases.take(1)
    leases.begin(held)
    leases.hold_again(held)
    assert (leases.get(1), held.state) == (held, LeaseState.HELD)


class OrderedGroup(RuleBasedStateMachine):
    """Whatever happens, at most one message of a key is held, and a later one never before an earlier one."""

    @initialize()
    def create(self) -> None:
        self.leases = Leases()
        self.leases.is_ordered = True
        self.all: list[Lease] = []
        self.held: list[Lease] = []
        self.taken: dict[bytes, int] = {}

    @rule(keys=st.lists(st.sampled_from([b"a", b"b", None]), max_size=4))
    def deliver(self, keys: list[bytes | None]) -> None:
        added = [lease(len(self.all) + index, key) for index, key in enumerate(keys)]
        self.all += added
        self.leases.add(added)

    @rule(count=st.integers(1, 3))
    def take(self, count: int) -> None:
        for each in self.leases.take(count):
            if (key := each.message.key) is not None:
                assert each.number > self.taken.get(key, -1)
                self.taken[key] = each.number
            self.held.append(each)

    @rule(place=st.integers(0, 9), is_release=st.booleans())
    def acknowledge(self, place: int, is_release: bool) -> None:
        if not self.held:
            return
        done = self.held.pop(place % len(self.held))
        behind = self.leases.behind(done) if is_release else []
        for each in (done, *behind):
            self.leases.begin(each)
        for each in (done, *behind):
            self.leases.end(each, AcknowledgeType.RELEASE if is_release else AcknowledgeType.ACCEPT)

    @rule(place=st.integers(0, 9))
    def ready_one_goes_back(self, place: int) -> None:
        ready = [each for each in self.all if each.state is LeaseState.READY]
        if ready:
            lane = ready[place % len(ready)].lane
            for each in [each for each in ready if each.lane == lane]:
                self.leases.begin(each)
                self.leases.end(each, None)

    @invariant()
    def one_of_a_key_is_held(self) -> None:
        keys = [each.message.key for each in self.held if each.message.key is not None]
        assert len(keys) == len(set(keys))
        open_ones = [each for each in self.all if each.state is not LeaseState.DONE]
        assert len(self.leases) == len(open_ones)


TestOrderedGroup = OrderedGroup.TestCase
TestOrderedGroup.settings = settings(max_examples=50, stateful_step_count=30)
