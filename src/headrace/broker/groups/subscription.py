"""Which topics a group consumes, as far as the coordinator knows.

To the broker a member's metadata is opaque but for this: offsets of a topic that is consumed must not be deleted.
The first version of the consumer protocol is a prefix of all later ones, so reading that is enough.
"""

from __future__ import annotations

import struct

from headrace.broker.groups.state import Group

_VERSION_AND_COUNT = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def is_subscribed(group: Group, topic: str) -> bool:
    topics = subscribed_topics(group)
    # If the topics are unknown, a group of consumers might consume any.
    return group.uses_consumer_protocol if topics is None else topic in topics


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics that the members subscribe to, or None if they are unknown."""
    if not group.uses_consumer_protocol:
        return None
    if group.members and group.protocol_name is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        wanted = _topics_in(member.metadata_for(group.protocol_name))
        if wanted is None:
            return None
        topics |= wanted
    return frozenset(topics)


def _topics_in(metadata: bytes) -> set[str] | None:
    topics: set[str] = set()
    try:
        _, count = _VERSION_AND_COUNT.unpack_from(metadata, 0)
        position = _VERSION_AND_COUNT.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if length < 0 or position + length > len(metadata):
                return None
            topics.add(metadata[position : position + length].decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return topics
