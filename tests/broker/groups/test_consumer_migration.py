"""A classic group becomes one of the newer protocol, and back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headrace.broker.groups.consumer_embedded import (
    EmbeddedAssignment,
    EmbeddedPartitions,
    EmbeddedSubscription,
    write_assignment,
    write_subscription,
)
from headrace.broker.groups.consumer_migration import downgraded, upgrade
from headrace.broker.groups.consumer_state import ConsumerGroup
from headrace.broker.groups.consumer_step import ConsumerStep
from headrace.broker.groups.state import Group, GroupState, Member, MemberProtocol
from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode
from tests.broker.groups.consumer_simulation import SomeTopics


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


def test_group_with_a_custom_assignor_stays_classic() -> None:
    def moved(classic: Group) -> ConsumerGroup:
        group = ConsumerGroup("g")
        upgrade(
            ConsumerStep(group=group, catalog=SomeTopics(), now_ms=0, session_timeout_ms=1, members_max=9),
            classic,
        )
        return group

    assert moved(classic_group("own", None)).epochs.group == 4
    assert moved(classic_group("cooperative-sticky", b"data")).members["k"].epoch == 4
    with pytest.raises(RequestRejected) as rejected:
        moved(classic_group("own", b"data"))
    assert rejected.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_members_keep_their_partitions_in_both_migrations() -> None:
    topics = SomeTopics(a=2)
    topic = topics.get("a")
    assert topic is not None
    assigned = write_assignment(
        EmbeddedAssignment(assigned_partitions=(EmbeddedPartitions(topic="a", partitions=(0, 1)),)), 0
    )
    before = classic_group("range", None)
    before = before.put(replace(before.members["k"], assignment=assigned))
    group = ConsumerGroup("g")
    upgrade(ConsumerStep(group=group, catalog=topics, now_ms=0, session_timeout_ms=1, members_max=9), before)
    assert group.members["k"].assigned == {topic.id: {0: 4, 1: 4}}
    assert group.targets["k"] == {topic.id: {0, 1}}
    after = downgraded(group, topics, now_ms=5)
    assert after.members == before.members
    assert (after.generation, after.protocol_name, after.leader_id) == (4, "range", "k")
