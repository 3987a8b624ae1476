"""Share groups in `__consumer_offsets`: members, assignments, and the partitions that have state.

The state of deliveries is in another topic: `stored_share_state`. Names are Kafka's.
Encoding and decoding are in `stored`.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Struct

from headrace.protocol.stored_consumer_groups import GroupKey, GroupMemberKey, TopicPartition
from headrace.protocol.stored_format import StoredFormat
from headrace.protocol.types import Int8, Int32, Int64, NullableString, String, Uuid, tagged


class ShareGroupMemberMetadataKey(GroupMemberKey, frozen=True):
    """A member, and its subscription."""


class ShareGroupMemberMetadataValue(Struct, frozen=True, kw_only=True):
    rack_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()


class ShareGroupMetadataKey(GroupKey, frozen=True):
    """A share group."""


class ShareGroupMetadataValue(Struct, frozen=True, kw_only=True):
    """The hash is of the topics subscribed to: if it changes, partitions are assigned again."""

    epoch: Int32
    metadata_hash: Int64 = 0


class ShareGroupTargetAssignmentMetadataKey(GroupKey, frozen=True):
    """The target assignment of a group."""


class ShareGroupTargetAssignmentMetadataValue(Struct, frozen=True, kw_only=True):
    """The group's epoch that the target assignment was computed for, and when."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tagged(0)] = 0


class ShareGroupTargetAssignmentMemberKey(GroupMemberKey, frozen=True):
    """The target assignment of a member."""


class ShareGroupTargetAssignmentMemberValue(Struct, frozen=True, kw_only=True):
    topic_partitions: tuple[TopicPartition, ...] = ()


class ShareGroupCurrentMemberAssignmentKey(GroupMemberKey, frozen=True):
    """The assignment that a member has."""


class TopicPartitions(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    partitions: tuple[Int32, ...]


class ShareGroupCurrentMemberAssignmentValue(Struct, frozen=True, kw_only=True):
    """The state is that of consumer groups' members; here it is always 0, stable."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8 = 0
    assigned_partitions: tuple[TopicPartitions, ...] = ()


class ShareGroupStatePartitionMetadataKey(GroupKey, frozen=True):
    """The partitions with state of a group."""


class TopicPartitionsInfo(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    topic_name: String
    partitions: tuple[Int32, ...]


class TopicInfo(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    topic_name: String


class ShareGroupStatePartitionMetadataValue(Struct, frozen=True, kw_only=True):
    """Partitions whose state is being initialized, exists, or is being deleted."""

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
    StoredFormat(10, ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue),
    StoredFormat(11, ShareGroupMetadataKey, ShareGroupMetadataValue),
    StoredFormat(12, ShareGroupTargetAssignmentMetadataKey, ShareGroupTargetAssignmentMetadataValue),
    StoredFormat(13, ShareGroupTargetAssignmentMemberKey, ShareGroupTargetAssignmentMemberValue),
    StoredFormat(14, ShareGroupCurrentMemberAssignmentKey, ShareGroupCurrentMemberAssignmentValue),
    StoredFormat(15, ShareGroupStatePartitionMetadataKey, ShareGroupStatePartitionMetadataValue),
)
