"""One event of a group of the newer protocol: its changes can be undone."""

from __future__ import annotations

from msgspec.structs import replace

from headrace.broker.groups.consumer_state import ClassicSide, ConsumerGroup, ConsumerMember, Epochs, Resolved
from headrace.broker.groups.consumer_step import ConsumerStep
from headrace.broker.groups.events import ArmTimer, CancelTimer, TimerKind
from tests.broker.groups.consumer_simulation import SomeTopics

TOPICS = SomeTopics(a=2)
MEMBER = ConsumerMember(member_id="m", topics=("a",))


def step(group: ConsumerGroup) -> ConsumerStep:
    return ConsumerStep(group=group, catalog=TOPICS, now_ms=0, session_timeout_ms=45, members_max=9)


def test_undo_restores_the_group_and_drops_the_timers() -> None:
    topic = TOPICS.get("a")
    assert topic is not None
    group = ConsumerGroup("g")
    first = step(group)
    first.put(MEMBER)
    first.set_target("m", {topic.id: frozenset({0})})
    first.set_pattern("b.*", Resolved(topics=frozenset(), version=1, resolved_at_ms=0))
    first.bump()
    before = (group.epochs, dict(group.members), dict(group.targets), dict(group.patterns))

    second = step(group)
    second.put(replace(MEMBER, topics=("a", "b")))
    second.put(ConsumerMember(member_id="n", instance_id="i"))
    second.remove(group.members["m"])
    second.set_pattern("b.*", None)
    second.bump()
    second.set_epochs(Epochs(group=9, target=9))
    assert (group.epochs.group, {*group.members}, group.targets, group.patterns) == (9, {"n"}, {}, {})
    second.undo()
    assert (group.epochs, group.members, group.targets, group.patterns) == before
    assert (second.changes, second.timers, group.static_member("i")) == ([], [], None)


def test_what_stays_the_same_is_no_change() -> None:
    changing = step(ConsumerGroup("g"))
    changing.put(MEMBER)
    changing.set_target("m", {})
    changing.changes.clear()
    changing.put(replace(MEMBER))
    changing.set_target("m", {})
    changing.set_epochs(Epochs())
    assert changing.changes == []


def test_removed_member_has_no_timers() -> None:
    changing = step(ConsumerGroup("g"))
    changing.put(MEMBER)
    changing.remove(MEMBER)
    assert changing.timers == [CancelTimer(kind=kind, member_id="m") for kind in TimerKind]


def test_classic_member_has_the_session_time_out_that_it_sent() -> None:
    changing = step(ConsumerGroup("g"))
    changing.arm(TimerKind.SESSION, MEMBER)
    changing.arm(TimerKind.SESSION, replace(MEMBER, classic=ClassicSide(session_timeout_ms=7, protocols=())))
    assert [timer.after_ms for timer in changing.timers if isinstance(timer, ArmTimer)] == [45, 7]
