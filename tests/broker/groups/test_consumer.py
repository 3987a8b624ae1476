"""Rules of the newer protocol, one at a time; `test_consumer_random_walk` has them all at once."""

from __future__ import annotations

import pytest

from headrace.broker.groups.consumer import (
    ConsumerHeartbeat,
    check_epoch_of,
    heartbeat,
)
from headrace.broker.groups.consumer_embedded import (
    EmbeddedAssignment,
    EmbeddedPartitions,
    EmbeddedSubscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from headrace.broker.groups.consumer_migration import upgrade
from headrace.broker.groups.consumer_state import ConsumerGroup, ConsumerMember, MemberState
from headrace.broker.groups.consumer_step import (
    ASSIGNED_AT_ONCE_MAX,
    ASSIGNED_PER_MS_MAX,
    Arm,
    Cancel,
    ConsumerStep,
    ConsumerTimer,
)
from headrace.broker.groups.consumer_storage import ReadConsumerGroups
from headrace.broker.groups.state import Group, GroupState, Member, MemberProtocol
from headrace.broker.patterns import InvalidPattern, compiled, matching
from headrace.broker.refusals import RequestRefused
from headrace.protocol import stored
from headrace.protocol import stored_consumer_groups as formats
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.primitives import MalformedMessage
from tests.broker.groups.consumer_simulation import Client, Coordinator, SomeTopics


def client(coordinator: Coordinator, member_id: str, *topics: str) -> Client:
    joined = Client(coordinator=coordinator, member_id=member_id, topics=topics)
    assert joined.beat() is ErrorCode.NONE
    return joined


def test_a_small_group_is_assigned_at_every_change() -> None:
    coordinator = Coordinator(SomeTopics(a=10))
    for number in range(5):
        client(coordinator, f"m{number}", "a")
        assert coordinator.group.epochs.target == coordinator.group.epochs.group == number + 1


def test_a_big_group_is_assigned_no_more_often_than_it_can_afford() -> None:
    size = ASSIGNED_AT_ONCE_MAX + 1
    coordinator = Coordinator(SomeTopics(a=size))
    first = client(coordinator, "m0", "a")
    assert len(first.owned) == size
    second = client(coordinator, "m1", "a")
    assert (second.epoch, second.owned, coordinator.group.epochs.group) == (1, set(), 2)

    coordinator.now_ms += size // ASSIGNED_PER_MS_MAX + 1
    first.beat()
    assert coordinator.group.epochs.target == 2
    # A clock that was set back does not make it wait.
    coordinator.now_ms -= 10_000_000
    client(coordinator, "m2", "a")
    assert coordinator.group.epochs.target == 3


def test_a_member_that_no_longer_wants_a_topic_loses_it_even_before_the_next_assignment() -> None:
    topics = SomeTopics(a=ASSIGNED_AT_ONCE_MAX, b=2)
    coordinator = Coordinator(topics)
    one = client(coordinator, "m", "a", "b")
    client(coordinator, "n", "a", "b")
    one.topics, one.says_all = ("b",), True
    one.beat()
    assert {place.topic_id for place in one.told} == {topics.put("b", 2).id}


def test_the_rebalance_time_out_runs_while_a_member_has_something_to_give_up() -> None:
    group, topics = ConsumerGroup("g"), SomeTopics(a=2)

    def beat(member_id: str, epoch: int, **reported: object) -> list[Arm | Cancel]:
        step = ConsumerStep(group=group, catalog=topics, now_ms=0, session_timeout_ms=45_000, members_max=10)
        says = ConsumerHeartbeat(
            member_id=member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=777,
            topics=("a",),
            reported=reported.get("reported", {}),  # type: ignore[arg-type]
        )
        heartbeat(step, says)
        return [timer for timer in step.timers if timer.kind is ConsumerTimer.REBALANCE]

    beat("m", 0)
    beat("n", 0)
    has_all = {topic.id: frozenset({0, 1}) for topic in [topics.find("a")] if topic is not None}
    assert beat("m", 1, reported=has_all) == [Arm(ConsumerTimer.REBALANCE, "m", 777)]
    assert group.members["m"].state is MemberState.UNREVOKED_PARTITIONS
    assert beat("m", 1, reported=has_all) == []
    assert beat("m", 1) == [Cancel(ConsumerTimer.REBALANCE, "m")]


def test_an_earlier_epoch_is_good_for_what_the_member_has_had_since_then() -> None:
    topics = SomeTopics(a=2)
    topic = topics.find("a")
    assert topic is not None
    coordinator = Coordinator(topics)
    one, other = client(coordinator, "m", "a"), client(coordinator, "n", "a")
    for _ in range(3):
        one.let_go()
        one.beat()
        other.beat()
    group = coordinator.group
    kept, moved = frozenset({(topic.id, 0)}), frozenset({(topic.id, 1)})
    assert check_epoch_of(group, "m", 2, covers=kept) is ErrorCode.NONE
    assert check_epoch_of(group, "m", 1, covers=kept) is ErrorCode.NONE
    assert check_epoch_of(group, "n", 1, covers=moved) is ErrorCode.STALE_MEMBER_EPOCH
    assert check_epoch_of(group, "m", 1, covers=kept | moved) is ErrorCode.STALE_MEMBER_EPOCH
    assert check_epoch_of(group, "m", 1, covers=None) is ErrorCode.STALE_MEMBER_EPOCH
    assert check_epoch_of(group, "m", 3, covers=kept) is ErrorCode.STALE_MEMBER_EPOCH


# Regular expressions


@pytest.mark.parametrize("pattern", ["(", "[a", "(?=a)b", r"(a)\1", "a{1001}", "(((a{9}){99}){99}){99}"])
def test_what_is_no_pattern_or_too_big_a_one_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compiled(pattern)


def test_a_pattern_matches_whole_names_in_linear_time() -> None:
    assert matching("a|ab", ["a", "ab", "abc"]) == {"a", "ab"}
    # Python's own `re` would not live to see the end of this.
    assert matching("(a*)*b", ["a" * 249]) == frozenset()


# What classic consumers say


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_subscriptions_and_assignments_of_every_version_are_read_back(version: int) -> None:
    owned = (EmbeddedPartitions(topic="a", partitions=(0, 2)),)
    said = EmbeddedSubscription(
        topics=("a", "b"),
        user_data=b"own",
        owned_partitions=owned if version >= 1 else (),
        generation_id=7 if version >= 2 else -1,
        rack_id="r" if version >= 3 else None,
    )
    offer = MemberProtocol(name="range", metadata=write_subscription(said, version))
    assert read_subscription((offer,)) == said
    newer = MemberProtocol(name="range", metadata=b"\x00\x09" + write_subscription(said, 3)[2:] + b"more")
    assert read_subscription((newer,)).topics == ("a", "b")
    given = EmbeddedAssignment(assigned_partitions=owned)
    assert read_assignment(write_assignment(given, version)) == given


@pytest.mark.parametrize("data", [b"\x00", b"\xff\xff", b"\x00\x00\x00\x00\x00\x01", b"all"])
def test_what_is_no_subscription_is_an_error(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_subscription((MemberProtocol(name="x", metadata=data),))


def classic_group(protocol: str, user_data: bytes | None) -> Group:
    said = write_subscription(EmbeddedSubscription(topics=("a",), user_data=user_data), 0)
    member = Member(
        member_id="k",
        instance_id=None,
        client_id="c",
        client_host="/h",
        session_timeout_ms=1,
        rebalance_timeout_ms=1,
        protocols=(MemberProtocol(name=protocol, metadata=said),),
    )
    stable = Group(
        group_id="g",
        state=GroupState.STABLE,
        generation=4,
        protocol_type="consumer",
        protocol_name=protocol,
    )
    return stable.put(member)


def test_a_group_that_assigns_in_a_way_of_its_own_stays_classic() -> None:
    def moved(classic: Group) -> ConsumerGroup:
        group = ConsumerGroup("g")
        upgrade(
            ConsumerStep(group=group, catalog=SomeTopics(), now_ms=0, session_timeout_ms=1, members_max=9),
            classic,
        )
        return group

    assert moved(classic_group("own", None)).epochs.group == 4
    assert moved(classic_group("cooperative-sticky", b"data")).members["k"].epoch == 4
    with pytest.raises(RequestRefused) as refused:
        moved(classic_group("own", b"data"))
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND


# On disk


def test_records_of_an_older_kafka_are_read_whatever_their_order() -> None:
    topic = SomeTopics(a=2).find("a")
    assert topic is not None
    has = formats.TopicPartitions(topic_id=topic.id, partitions=(1, 0), assignment_epochs=())
    records: list[tuple[formats.Key, object]] = [
        (
            formats.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
            formats.ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=5, previous_member_epoch=4, state=0, assigned_partitions=(has,)
            ),
        ),
        (
            formats.ConsumerGroupPartitionMetadataKey(group_id="g"),
            formats.ConsumerGroupPartitionMetadataValue(),
        ),
        (
            formats.ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"),
            formats.ConsumerGroupMemberMetadataValue(subscribed_topic_names=("a",)),
        ),
        (formats.ConsumerGroupMetadataKey(group_id="g"), formats.ConsumerGroupMetadataValue(epoch=5)),
    ]
    read = ReadConsumerGroups()
    for key, value in records:
        assert read.put(key, stored.encode_value(value))
    member = read.groups()["g"].members["m"]
    assert member == ConsumerMember(
        member_id="m", topics=("a",), epoch=5, previous_epoch=4, assigned={topic.id: {0: 5, 1: 5}}
    )

    assert read.put(formats.ConsumerGroupMetadataKey(group_id="g"), None)
    assert read.groups() == {}
