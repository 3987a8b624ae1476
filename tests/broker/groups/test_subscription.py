"""Which topics a group consumes, read out of what its members say to each other."""

from __future__ import annotations

import struct

import pytest

from headrace.broker.groups.state import Group, GroupState, Member
from headrace.broker.groups.subscription import is_subscribed, subscribed_topics
from tests.broker.groups.simulation import offers


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
            protocols=offers("range", metadata=said),
        )
        for number, said in enumerate(metadata)
    ]
    return Group(
        group_id="g", state=GroupState.STABLE, protocol_type=protocol_type, protocol_name="range"
    ).put(*members)


def test_the_group_consumes_what_any_member_asks_for() -> None:
    group = group_of(subscription("a", "ü"), subscription("b", version=0, tail=b""))
    assert subscribed_topics(group) == frozenset({"a", "b", "ü"})
    assert is_subscribed(group, "a")
    assert not is_subscribed(group, "c")


def test_a_group_of_consumers_without_members_consumes_nothing() -> None:
    assert subscribed_topics(Group(group_id="g", protocol_type="consumer")) == frozenset()


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"\0\0",
        subscription("a")[:8],
        struct.pack(">hi", 0, 2**31 - 1),
        struct.pack(">hih", 0, 1, -5),
        struct.pack(">hih", 0, 1, 2) + b"\xff\xff",
    ],
)
def test_a_group_that_cannot_be_understood_might_consume_anything(said: bytes) -> None:
    group = group_of(subscription("a"), said)
    assert subscribed_topics(group) is None
    assert is_subscribed(group, "anything")


def test_a_group_of_another_kind_is_not_a_consumer_of_topics() -> None:
    group = group_of(subscription("a"), protocol_type="connect")
    assert subscribed_topics(group) is None
    assert not is_subscribed(group, "a")
