"""Groups as records of the internal topic `__consumer_offsets`, in Kafka's own formats.

This module has offsets and classic groups, and encodes and decodes all records of the topic; the structs of the newer
consumer groups and of share groups are in `stored_consumer_groups` and `stored_share_groups`.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Struct

from headrace.protocol import stored_consumer_groups as consumer_groups
from headrace.protocol import stored_share_groups as share_groups
from headrace.protocol.stored_format import StoredFormat, StoredTopic
from headrace.protocol.types import (
    ZERO_UUID,
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


class OffsetCommitKey(Struct, frozen=True, kw_only=True):
    """A group's offset in a partition. Kinds 0 and 1 have the same fields; 1 is written."""

    group: String
    topic: String
    partition: Int32


class OffsetCommitValue(Struct, frozen=True, kw_only=True):
    """1: a time to live given by the client. 3: the leader epoch. 4: flexible; the topic's id."""

    offset: Int64
    leader_epoch: Annotated[Int32, since(3)] = -1
    metadata: String = ""
    commit_timestamp: Int64
    expire_timestamp: Annotated[Int64, since(1), until(1)] = -1
    topic_id: Annotated[Uuid, since(4), tagged(0)] = ZERO_UUID


class GroupMetadataKey(Struct, frozen=True, kw_only=True):
    """A group itself: its generation and its members."""

    group: String


class MemberMetadata(Struct, frozen=True, kw_only=True):
    member_id: String
    group_instance_id: Annotated[NullableString, since(3)] = None
    client_id: String = ""
    client_host: String = ""
    rebalance_timeout: Annotated[Int32, since(1)] = -1
    session_timeout: Int32
    subscription: Bytes = b""
    assignment: Bytes = b""


class GroupMetadataValue(Struct, frozen=True, kw_only=True):
    """1: rebalance time-outs. 2: when the state last changed. 3: static members. 4: flexible."""

    protocol_type: String = ""
    generation: Int32
    protocol: NullableString = None
    leader: NullableString = None
    current_state_timestamp: Annotated[Int64, since(2)] = -1
    members: tuple[MemberMetadata, ...] = ()


Key = OffsetCommitKey | GroupMetadataKey | consumer_groups.Key | share_groups.Key

CONSUMER_OFFSETS: Final = StoredTopic[Key](
    StoredFormat(0, OffsetCommitKey, OffsetCommitValue, version_newest=4, flexible_since=4),
    StoredFormat(1, OffsetCommitKey, OffsetCommitValue, version_newest=4, flexible_since=4),
    StoredFormat(2, GroupMetadataKey, GroupMetadataValue, version_newest=4, flexible_since=4),
    *consumer_groups.FORMATS,
    *share_groups.FORMATS,
)

encode_key = CONSUMER_OFFSETS.encode_key
decode_key = CONSUMER_OFFSETS.decode_key
encode_value = CONSUMER_OFFSETS.encode_value
decode_value = CONSUMER_OFFSETS.decode_value
