"""What `__consumer_offsets` keeps of share groups: members, assignments, and for which partitions there is state.

The state itself, what was delivered and acknowledged, is in another topic: `stored_share_state`. Names are Kafka's.
Encoding and decoding are in `stored`.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Struct

from headrace.protocol.stored_format import StoredFormat
from headrace.protocol.types import Int8, Int32, Int64, NullableString, String, Uuid, tagged


class ShareGroupMemberMetadataKey(Struct, frozen=True, kw_only=True):
    group_id: String
    member_id: String


class ShareGroupMemberMetadataValue(Struct, frozen=True, kw_only=True):
    rack_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()


class ShareGroupMetadataKey(Struct, frozen=True, kw_only=True):
    group_id: String


class ShareGroupMetadataValue(Struct, frozen=True, kw_only=True):
    """The hash is of the topics subscribed to: if it changes, partitions are assigned again."""

    epoch: Int32
    metadata_hash: Int64 = 0


class ShareGroupTargetAssignmentMetadataKey(Struct, frozen=True, kw_only=True):
    group_id: String


class ShareGroupTargetAssignmentMetadataValue(Struct, frozen=True, kw_only=True):
    """The group's epoch that the target assignment was made for, and when."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tagged(0)] = 0


class ShareGroupTargetAssignmentMemberKey(Struct, frozen=True, kw_only=True):
    group_id: String
    member_id: String


class TopicPartition(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    partitions: tuple[Int32, ...]


class ShareGroupTargetAssignmentMemberValue(Struct, frozen=True, kw_only=True):
    topic_partitions: tuple[TopicPartition, ...] = ()


class ShareGroupCurrentMemberAssignmentKey(Struct, frozen=True, kw_only=True):
    group_id: String
    member_id: String


class TopicPartitions(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    partitions: tuple[Int32, ...]


class ShareGroupCurrentMemberAssignmentValue(Struct, frozen=True, kw_only=True):
    """The state is that of consumer groups' members; here it is always 0, stable."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8 = 0
    assigned_partitions: tuple[TopicPartitions, ...] = ()


class ShareGroupStatePartitionMetadataKey(Struct, frozen=True, kw_only=True):
    group_id: String


class TopicPartitionsInfo(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    topic_name: String
    partitions: tuple[Int32, ...]


class TopicInfo(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    topic_name: String


class ShareGroupStatePartitionMetadataValue(Struct, frozen=True, kw_only=True):
    """Partitions whose state is being made, is there, or is being deleted."""

    initializing_topics: tuple[TopicPartitionsInfo, ...] = ()
    initialized_topics: tuple[TopicPartitionsInfo, ...] = ()
    deleting_topics: tuple[TopicInfo, ...] = ()


Key = (
    ShareGroupMemberMetadataKey
    | ShareGroupMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
)

FORMATS: Final = (
    StoredFormat(kind=10, key=ShareGroupMemberMetadataKey, value=ShareGroupMemberMetadataValue),
    StoredFormat(kind=11, key=ShareGroupMetadataKey, value=ShareGroupMetadataValue),
    StoredFormat(
        kind=12, key=ShareGroupTargetAssignmentMetadataKey, value=ShareGroupTargetAssignmentMetadataValue
    ),
    StoredFormat(
        kind=13, key=ShareGroupTargetAssignmentMemberKey, value=ShareGroupTargetAssignmentMemberValue
    ),
    StoredFormat(
        kind=14, key=ShareGroupCurrentMemberAssignmentKey, value=ShareGroupCurrentMemberAssignmentValue
    ),
    StoredFormat(
        kind=15, key=ShareGroupStatePartitionMetadataKey, value=ShareGroupStatePartitionMetadataValue
    ),
)
