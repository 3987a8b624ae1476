"""Messages of classic consumers to each other, as bytes: subscriptions and assignments.

A group that changes its protocol has to read and write them. To a classic group they are opaque but for the topics:
offsets of a topic that is consumed must not be deleted.
"""

from __future__ import annotations

import struct
from typing import Annotated, Final

from msgspec import Struct

from headrace.broker.groups.state import Group, MemberProtocol
from headrace.protocol.codec import struct_codec
from headrace.protocol.primitives import MalformedMessage
from headrace.protocol.types import Int32, NullableBytes, NullableString, String, since

_VERSION = struct.Struct(">h")

SUBSCRIPTION_VERSION_NEWEST: Final = 3
ASSIGNMENT_VERSION_NEWEST: Final = 3


class EmbeddedPartitions(Struct, frozen=True, kw_only=True):
    topic: String
    partitions: tuple[Int32, ...]


class EmbeddedTopics(Struct, frozen=True, kw_only=True):
    """The first field of a subscription of every version."""

    topics: tuple[String, ...]


class EmbeddedSubscription(Struct, frozen=True, kw_only=True):
    """1: what the member has. 2: since which generation. 3: its rack."""

    topics: tuple[String, ...]
    user_data: NullableBytes = None
    owned_partitions: Annotated[tuple[EmbeddedPartitions, ...], since(1)] = ()
    generation_id: Annotated[Int32, since(2)] = -1
    rack_id: Annotated[NullableString, since(3)] = None


class EmbeddedAssignment(Struct, frozen=True, kw_only=True):
    assigned_partitions: tuple[EmbeddedPartitions, ...] = ()
    user_data: NullableBytes = None


def version_of(data: bytes) -> int:
    if len(data) < _VERSION.size:
        raise MalformedMessage("a subscription without a version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise MalformedMessage(f"a subscription of version {version}")
    return version


def read_subscription(protocols: tuple[MemberProtocol, ...]) -> EmbeddedSubscription:
    """The subscription of a member; it is the same in every protocol that it offers."""
    if not protocols:
        raise MalformedMessage("a member without a protocol")
    metadata = protocols[0].metadata
    # A newer version starts like the newest that is known.
    version = min(version_of(metadata), SUBSCRIPTION_VERSION_NEWEST)
    return struct_codec(EmbeddedSubscription, version, False).decode(metadata, _VERSION.size, allow_rest=True)


def write_subscription(subscription: EmbeddedSubscription, version: int) -> bytes:
    return _VERSION.pack(version) + struct_codec(EmbeddedSubscription, version, False).encode(subscription)


def read_assignment(data: bytes) -> EmbeddedAssignment:
    if not data:
        return EmbeddedAssignment()
    version = min(version_of(data), ASSIGNMENT_VERSION_NEWEST)
    return struct_codec(EmbeddedAssignment, version, False).decode(data, _VERSION.size, allow_rest=True)


def write_assignment(assignment: EmbeddedAssignment, version: int) -> bytes:
    version = min(version, ASSIGNMENT_VERSION_NEWEST)
    return _VERSION.pack(version) + struct_codec(EmbeddedAssignment, version, False).encode(assignment)


def is_subscribed(group: Group, topic: str) -> bool:
    topics = subscribed_topics(group)
    # If the topics are unknown, a group of consumers might consume any.
    return group.uses_consumer_protocol if topics is None else topic in topics


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics that the members of a classic group subscribe to, or None if they are unknown."""
    if not group.uses_consumer_protocol or (group.members and group.protocol_name is None):
        return None
    topics: set[str] = set()
    codec = struct_codec(EmbeddedTopics, 0, False)
    for member in group.members.values():
        metadata = member.metadata_for(group.protocol_name)
        try:
            topics.update(codec.decode(metadata, _VERSION.size, allow_rest=True).topics)
        except MalformedMessage:
            return None
    return frozenset(topics)
