"""Subscriptions and assignments of classic consumers, as bytes."""

from __future__ import annotations

import pytest

from headrace.broker.groups.consumer_embedded import (
    EmbeddedAssignment,
    EmbeddedPartitions,
    EmbeddedSubscription,
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from headrace.broker.groups.state import MemberProtocol
from headrace.protocol.primitives import MalformedMessage


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
