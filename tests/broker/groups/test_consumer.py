"""Rules of the newer protocol, one at a time; `test_consumer_random_walk` has them all together."""

from __future__ import annotations

from headrace.broker.groups.consumer import ConsumerHeartbeat, check_epoch_of, heartbeat
from headrace.broker.groups.consumer_state import ConsumerGroup, MemberState
from headrace.broker.groups.consumer_step import ASSIGNED_AT_ONCE_MAX, ASSIGNED_PER_MS_MAX, ConsumerStep
from headrace.broker.groups.events import ArmTimer, CancelTimer, TimerKind
from headrace.protocol.error_codes import ErrorCode
from tests.broker.groups.consumer_simulation import Client, Coordinator, SomeTopics
from tests.broker.groups.simulation import code_of


def client(coordinator: Coordinator, member_id: str, *topics: str) -> Client:
    joined = Client(coordinator=coordinator, member_id=member_id, topics=topics)
    assert joined.beat() is ErrorCode.NONE
    return joined


def test_small_group_is_assigned_at_every_change() -> None:
    coordinator = Coordinator(SomeTopics(a=10))
    for number in range(5):
        client(coordinator, f"m{number}", "a")
        assert coordinator.group.epochs.target == coordinator.group.epochs.group == number + 1


def test_large_group_is_not_assigned_at_every_change() -> None:
    size = ASSIGNED_AT_ONCE_MAX + 1
    coordinator = Coordinator(SomeTopics(a=size))
    first = client(coordinator, "m0", "a")
    assert len(first.owned) == size
    second = client(coordinator, "m1", "a")
    assert (second.epoch, second.owned, coordinator.group.epochs.group) == (1, set(), 2)

    coordinator.now_ms += size // ASSIGNED_PER_MS_MAX + 1
    first.beat()
    assert coordinator.group.epochs.target == 2
    # A clock that was set back does not delay it.
    coordinator.now_ms -= 10_000_000
    client(coordinator, "m2", "a")
    assert coordinator.group.epochs.target == 3


def test_member_that_unsubscribes_from_a_topic_loses_it_before_the_next_assignment() -> None:
    topics = SomeTopics(a=ASSIGNED_AT_ONCE_MAX, b=2)
    coordinator = Coordinator(topics)
    one = client(coordinator, "m", "a", "b")
    client(coordinator, "n", "a", "b")
    one.topics, one.is_full = ("b",), True
    one.beat()
    assert {place.topic_id for place in one.assigned} == {topics.put("b", 2).id}


def test_rebalance_time_out_runs_while_a_member_has_to_revoke_partitions() -> None:
    group, topics = ConsumerGroup("g"), SomeTopics(a=2)

    def beat(member_id: str, epoch: int, **reported: object) -> list[ArmTimer | CancelTimer]:
        step = ConsumerStep(group=group, catalog=topics, now_ms=0, session_timeout_ms=45_000, members_max=10)
        sent = ConsumerHeartbeat(
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=777,
            topics=("a",),
            reported=reported.get("reported", {}),  # type: ignore[arg-type]
        )
        heartbeat(step, sent)
        return [timer for timer in step.timers if timer.kind is TimerKind.REBALANCE]

    beat("m", 0)
    beat("n", 0)
    has_all = {topic.id: frozenset({0, 1}) for topic in [topics.get("a")] if topic is not None}
    assert beat("m", 1, reported=has_all) == [ArmTimer(kind=TimerKind.REBALANCE, member_id="m", after_ms=777)]
    assert group.members["m"].state is MemberState.UNREVOKED_PARTITIONS
    assert beat("m", 1, reported=has_all) == []
    assert beat("m", 1) == [CancelTimer(kind=TimerKind.REBALANCE, member_id="m")]


def test_earlier_epoch_is_valid_for_partitions_that_the_member_has_owned_since_then() -> None:
    topics = SomeTopics(a=2)
    topic = topics.get("a")
    assert topic is not None
    coordinator = Coordinator(topics)
    one, other = client(coordinator, "m", "a"), client(coordinator, "n", "a")
    for _ in range(3):
        one.revoke()
        one.beat()
        other.beat()
    group = coordinator.group
    kept, moved = frozenset({(topic.id, 0)}), frozenset({(topic.id, 1)})
    assert code_of(check_epoch_of, group, "m", 2, covers=kept) is ErrorCode.NONE
    assert code_of(check_epoch_of, group, "m", 1, covers=kept) is ErrorCode.NONE
    assert code_of(check_epoch_of, group, "n", 1, covers=moved) is ErrorCode.STALE_MEMBER_EPOCH
    assert code_of(check_epoch_of, group, "m", 1, covers=kept | moved) is ErrorCode.STALE_MEMBER_EPOCH
    assert code_of(check_epoch_of, group, "m", 1, covers=None) is ErrorCode.STALE_MEMBER_EPOCH
    assert code_of(check_epoch_of, group, "m", 3, covers=kept) is ErrorCode.STALE_MEMBER_EPOCH
