"""What is kept of groups as records of the internal topic `__consumer_offsets`, in Kafka's own formats.

A key begins with a number for its kind, a value with its version; both are 16 bits, and a struct follows.
A key of a kind that isn't known here decodes to None rather than to an error: Kafka keeps more in this topic.
"""

from __future__ import annotations

import struct as packing
from typing import Annotated, Final, TypeVar

from headrace.protocol.codec import struct_codec
from headrace.protocol.primitives import MalformedMessage, truncated
from headrace.protocol.types import (
    ZERO_UUID,
    Buffer,
    Bytes,
    Int32,
    Int64,
    NullableString,
    String,
    Uuid,
    since,
    tagged,
    until,
)
from headrace.values import value

OFFSET_COMMIT_KINDS: Final = (0, 1)
GROUP_METADATA_KIND: Final = 2
VALUE_VERSION_NEWEST: Final = 4
VALUE_FLEXIBLE_SINCE: Final = 4

_NUMBER = packing.Struct(">h")


@value
class OffsetCommitKey:
    """A group's offset in a partition. Kinds 0 and 1 look the same; 1 is the one to write."""

    group: String
    topic: String
    partition: Int32


@value
class OffsetCommitValue:
    """1: a time to live given by the client. 3: the leader epoch. 4: flexible; the topic's id."""

    offset: Int64
    leader_epoch: Annotated[Int32, since(3)] = -1
    metadata: String = ""
    commit_timestamp: Int64
    expire_timestamp: Annotated[Int64, since(1), until(1)] = -1
    topic_id: Annotated[Uuid, since(4), tagged(0)] = ZERO_UUID


@value
class GroupMetadataKey:
    """A group itself: its generation and its members."""

    group: String


@value
class MemberMetadata:
    member_id: String
    group_instance_id: Annotated[NullableString, since(3)] = None
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Annotated[Int32, since(1)] = -1
    session_timeout: Int32
    subscription: Bytes = b""
    assignment: Bytes = b""


@value
class GroupMetadataValue:
    """1: rebalance time-outs. 2: when the state last changed. 3: static members. 4: flexible."""

    protocol_type: String = ""
    generation: Int32
    protocol: NullableString = None
    leader: NullableString = None
    current_state_timestamp: Annotated[Int64, since(2)] = -1
    members: tuple[MemberMetadata, ...] = ()


Key = OffsetCommitKey | GroupMetadataKey
Value = TypeVar("Value", bound=OffsetCommitValue | GroupMetadataValue)


def encode_key(key: Key) -> bytes:
    if isinstance(key, OffsetCommitKey):
        kind = OFFSET_COMMIT_KINDS[-1]
        return _NUMBER.pack(kind) + struct_codec(OffsetCommitKey, kind, False).encode(key)
    return _NUMBER.pack(GROUP_METADATA_KIND) + struct_codec(GroupMetadataKey, 2, False).encode(key)


def decode_key(data: Buffer) -> Key | None:
    kind = _number(data)
    if kind in OFFSET_COMMIT_KINDS:
        return struct_codec(OffsetCommitKey, kind, False).decode(data, _NUMBER.size)
    if kind == GROUP_METADATA_KIND:
        return struct_codec(GroupMetadataKey, kind, False).decode(data, _NUMBER.size)
    return None


def encode_value(value: OffsetCommitValue | GroupMetadataValue, version: int = VALUE_VERSION_NEWEST) -> bytes:
    flexible = version >= VALUE_FLEXIBLE_SINCE
    return _NUMBER.pack(version) + struct_codec(type(value), version, flexible).encode(value)


def decode_value(cls: type[Value], data: Buffer) -> Value:
    """The value that belongs to a key, whose kind says of which class it is."""
    version = _number(data)
    if not 0 <= version <= VALUE_VERSION_NEWEST:
        raise MalformedMessage(
            f"{cls.__name__} has version {version}, and {VALUE_VERSION_NEWEST} is the newest known here",
            hint="the data folder was written by a newer version; start that one",
        )
    return struct_codec(cls, version, version >= VALUE_FLEXIBLE_SINCE).decode(data, _NUMBER.size)


def _number(data: Buffer) -> int:
    try:
        number: int = _NUMBER.unpack_from(data, 0)[0]
    except packing.error as error:
        raise truncated() from error
    return number
