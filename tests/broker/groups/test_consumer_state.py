"""A group of the newer protocol: its counts agree with its members after every change, and after its revert."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.broker.groups.assignors import TopicIdPartition
from headrace.broker.groups.consumer_state import (
    ClassicSide,
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMember,
    Epochs,
    EpochsChange,
    MemberChange,
    MemberState,
    PatternChange,
    Resolved,
)
from tests.broker.groups.simulation import offers

TOPIC = uuid.UUID(int=1)


def members(member_id: str) -> st.SearchStrategy[ConsumerMember]:
    """A member of this id; its partitions are its own, as the rules ensure."""
    return st.builds(
        ConsumerMember,
        member_id=st.just(member_id),
        instance_id=st.sampled_from([None, f"instance of {member_id}"]),
        topics=st.sets(st.sampled_from(["a", "b"])).map(lambda names: tuple(sorted(names))),
        pattern=st.sampled_from([None, "c.*"]),
        assignor=st.sampled_from([None, "uniform", "range"]),
        classic=st.sampled_from([None, ClassicSide(session_timeout_ms=1, protocols=offers("range"))]),
        assigned=st.sampled_from([{}, {TOPIC: {ord(member_id): 1}}]),
    )


@given(
    st.lists(
        st.sampled_from("xyz").flatmap(
            lambda name: st.tuples(st.just(name), st.none() | members(name), st.booleans())
        )
    )
)
def test_counts_are_those_of_the_members(changes: list[tuple[str, ConsumerMember | None, bool]]) -> None:
    group = ConsumerGroup("g")
    for name, after, is_reverted in changes:
        change = MemberChange(member_id=name, before=group.members.get(name), after=after)
        before = dict(group.members)
        group.apply(change)
        if is_reverted:
            group.revert(change)
            assert group.members == before
        present = group.members.values()
        assert group.subscribed_topics() == {topic for one in present for topic in one.topics}
        assert {*group.used_patterns()} == {one.pattern for one in present} - {None}
        assert group.classic_count == sum(one.classic is not None for one in present)
        for one in present:
            assert one.instance_id is None or group.static_member(one.instance_id) == one
        for owner in "xyz":
            place = TopicIdPartition(TOPIC, ord(owner))
            has_it = owner in group.members and place in group.members[owner].owned_partitions()
            assert group.owner(place) == (owner if has_it else None)
        assignors = [one.assignor for one in present if one.assignor]
        wanted = group.most_wanted_assignor("default")
        assert assignors.count(wanted) == max(map(assignors.count, assignors), default=0)


@pytest.mark.parametrize(
    ("epochs", "member", "state"),
    [
        (Epochs(group=2, target=2), None, ConsumerGroupState.EMPTY),
        (Epochs(group=2, target=1), ConsumerMember(member_id="m", epoch=1), ConsumerGroupState.ASSIGNING),
        (Epochs(group=2, target=2), ConsumerMember(member_id="m", epoch=1), ConsumerGroupState.RECONCILING),
        (
            Epochs(group=2, target=2),
            ConsumerMember(member_id="m", epoch=2, state=MemberState.UNRELEASED_PARTITIONS),
            ConsumerGroupState.RECONCILING,
        ),
        (Epochs(group=2, target=2), ConsumerMember(member_id="m", epoch=2), ConsumerGroupState.STABLE),
    ],
)
def test_state_follows_from_the_epochs(
    epochs: Epochs, member: ConsumerMember | None, state: ConsumerGroupState
) -> None:
    group = ConsumerGroup("g")
    group.apply(EpochsChange(before=Epochs(), after=epochs))
    if member is not None:
        group.apply(MemberChange(member_id="m", before=None, after=member))
    assert group.state is state


def test_member_subscribes_by_name_and_by_pattern() -> None:
    group = ConsumerGroup("g")
    member = ConsumerMember(member_id="m", topics=("a",), pattern="b.*")
    group.apply(MemberChange(member_id="m", before=None, after=member))
    assert group.wanted_topics(member) == {"a"}
    resolved = Resolved(topics=frozenset({"b1", "b2"}), version=1, resolved_at_ms=0)
    group.apply(PatternChange(pattern="b.*", before=None, after=resolved))
    assert group.wanted_topics(member) == group.subscribed_topics() == {"a", "b1", "b2"}


def test_members_subscribe_alike_if_names_and_pattern_agree() -> None:
    member = ConsumerMember(member_id="m", topics=("a",), pattern="b.*")
    assert member.subscribes_like(replace(member, member_id="n", epoch=5))
    assert not member.subscribes_like(replace(member, topics=()))
    assert not member.subscribes_like(replace(member, pattern=None))


def test_classic_members_have_a_protocol_in_common() -> None:
    group = ConsumerGroup("g")
    assert group.supports_classic(offers("any"))
    assert not group.supports_classic(())
    classic = ClassicSide(session_timeout_ms=1, protocols=offers("range", "sticky"))
    group.apply(
        MemberChange(member_id="m", before=None, after=ConsumerMember(member_id="m", classic=classic))
    )
    assert group.supports_classic(offers("other", "sticky"))
    assert not group.supports_classic(offers("other"))
