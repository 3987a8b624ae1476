"""Subscriptions and assignments of classic consumers, as bytes."""

from __future__ import annotations

import struct

import pytest

from headrace.broker.groups.consumer_embedded import (
    EmbeddedAssignment,
    EmbeddedPartitions,
    EmbeddedSubscription,
    is_subscribed,
    read_assignment,
    read_subscription,
    subscribed_topics,
    write_assignment,
    write_subscription,
)
from headrace.broker.groups.state import Group, GroupState, Member, MemberProtocol
from headrace.protocol.primitives import MalformedMessage
from tests.broker.groups.simulation import offers


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_subscriptions_and_assignments_of_every_version_are_read_back(version: int) -> None:
    owned = (EmbeddedPartitions(topic="a", partitions=(0, 2)),)
    sent = EmbeddedSubscription(
        topics=("a", "b"),
        user_data=b"own",
        owned_partitions=owned if version >= 1 else (),
        generation_id=7 if version >= 2 else -1,
        rack_id="r" if version >= 3 else None,
    )
    offer = MemberProtocol(name="range", metadata=write_subscription(sent, version))
    assert read_subscription((offer,)) == sent
    newer = MemberProtocol(name="range", metadata=b"\x00\x09" + write_subscription(sent, 3)[2:] + b"more")
    assert read_subscription((newer,)).topics == ("a", "b")
    given = EmbeddedAssignment(assigned_partitions=owned)
    assert read_assignment(write_assignment(given, version)) == given


@pytest.mark.parametrize("data", [b"\x00", b"\xff\xff", b"\x00\x00\x00\x00\x00\x01", b"all"])
def test_malformed_subscription_is_rejected(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        read_subscription((MemberProtocol(name="x", metadata=data),))


def subscription(*topics: str, version: int = 3, tail: bytes = b"\0\0\0\0later fields") -> bytes:
    names = b"".join(struct.pack(">h", len(topic.encode())) + topic.encode() for topic in topics)
    return struct.pack(">hi", version, len(topics)) + names + tail


def group_of(*metadata: bytes, protocol_type: str = "consumer") -> Group:
    members = [
        Member(
            member_id=str(number),
            instance_id=None,
            client_id="",
            client_host="",
            session_timeout_ms=1,
            rebalance_timeout_ms=1,
            protocols=offers("range", metadata=one),
        )
        for number, one in enumerate(metadata)
    ]
    return Group(
        group_id="g", state=GroupState.STABLE, protocol_type=protocol_type, protocol_name="range"
    ).put(*members)


def test_group_consumes_the_topics_of_all_members() -> None:
    group = group_of(subscription("a", "ü"), subscription("b", version=0, tail=b""))
    assert subscribed_topics(group) == frozenset({"a", "b", "ü"})
    assert is_subscribed(group, "a")
    assert not is_subscribed(group, "c")


def test_group_of_consumers_without_members_consumes_nothing() -> None:
    assert subscribed_topics(Group(group_id="g", protocol_type="consumer")) == frozenset()


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\0\0",
        subscription("a")[:8],
        struct.pack(">hi", 0, 2**31 - 1),
        struct.pack(">hih", 0, 1, -5),
        struct.pack(">hih", 0, 1, 2) + b"\xff\xff",
    ],
)
def test_group_with_a_malformed_subscription_might_consume_any_topic(metadata: bytes) -> None:
    group = group_of(subscription("a"), metadata)
    assert subscribed_topics(group) is None
    assert is_subscribed(group, "anything")


def test_group_of_other_members_than_consumers_consumes_no_topic() -> None:
    group = group_of(subscription("a"), protocol_type="connect")
    assert subscribed_topics(group) is None
    assert not is_subscribed(group, "a")
