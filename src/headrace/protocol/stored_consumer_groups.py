"""Groups of the newer protocol (KIP-848) in `__consumer_offsets`: one record for each fact.

A group is its epoch, its members with their subscriptions, the assignment that it is moving to, and the one that each
member has. Names are Kafka's. Encoding and decoding are in `stored`.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Struct

from headrace.protocol.stored_format import StoredFormat
from headrace.protocol.types import Bytes, Int8, Int32, Int64, NullableString, String, Uuid, tagged


class GroupKey(Struct, frozen=True, kw_only=True):
    """The fields of the keys of records that a group has one of."""

    group_id: String


class GroupMemberKey(Struct, frozen=True, kw_only=True):
    """The fields of the keys of records that every member has."""

    group_id: String
    member_id: String


class ConsumerGroupMetadataKey(GroupKey, frozen=True):
    """A group."""


class ConsumerGroupMetadataValue(Struct, frozen=True, kw_only=True):
    """The hash is of the topics subscribed to: if it changes, partitions are assigned again."""

    epoch: Int32
    metadata_hash: Annotated[Int64, tagged(0)] = 0


class ConsumerGroupPartitionMetadataKey(GroupKey, frozen=True):
    """The topics that a group is subscribed to."""


class PartitionMetadata(Struct, frozen=True, kw_only=True):
    partition: Int32
    racks: tuple[String, ...] = ()


class TopicMetadata(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: tuple[PartitionMetadata, ...] = ()


class ConsumerGroupPartitionMetadataValue(Struct, frozen=True, kw_only=True):
    """The topics subscribed to, as Kafka 4.0 kept them; read, and no longer written."""

    topics: tuple[TopicMetadata, ...] = ()


class ConsumerGroupMemberMetadataKey(GroupMemberKey, frozen=True):
    """A member, and its subscription."""


class ClassicProtocol(Struct, frozen=True, kw_only=True):
    name: String
    metadata: Bytes


class ClassicMemberMetadata(Struct, frozen=True, kw_only=True):
    session_timeout_ms: Int32 = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()


class ConsumerGroupMemberMetadataValue(Struct, frozen=True, kw_only=True):
    """A member of the classic protocol in a group of the newer one has `classic_member_metadata`.

    For all others Kafka writes a null: to leave the tag out would mean a classic member without protocols.
    """

    instance_id: NullableString = None
    rack_id: NullableString = None
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: tuple[String, ...] = ()
    subscribed_topic_regex: NullableString = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: NullableString = None
    classic_member_metadata: Annotated[
        ClassicMemberMetadata | None, tagged(0, absent=ClassicMemberMetadata())
    ] = None


class ConsumerGroupTargetAssignmentMetadataKey(GroupKey, frozen=True):
    """The target assignment of a group."""


class ConsumerGroupTargetAssignmentMetadataValue(Struct, frozen=True, kw_only=True):
    """The group's epoch that the target assignment was computed for, and when."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tagged(0)] = 0


class ConsumerGroupTargetAssignmentMemberKey(GroupMemberKey, frozen=True):
    """The target assignment of a member."""


class TopicPartition(Struct, frozen=True, kw_only=True):
    topic_id: Uuid
    partitions: tuple[Int32, ...]


class ConsumerGroupTargetAssignmentMemberValue(Struct, frozen=True, kw_only=True):
    topic_partitions: tuple[TopicPartition, ...] = ()


class ConsumerGroupCurrentMemberAssignmentKey(GroupMemberKey, frozen=True):
    """The assignment that a member has."""


class TopicPartitions(Struct, frozen=True, kw_only=True):
    """The epochs, one for each partition, are those at which the member got it: older commits are rejected.

    Records of older versions have none.
    """

    topic_id: Uuid
    partitions: tuple[Int32, ...]
    assignment_epochs: Annotated[tuple[Int32, ...] | None, tagged(0)] = ()


class ConsumerGroupCurrentMemberAssignmentValue(Struct, frozen=True, kw_only=True):
    """States: 0 stable, 1 revoking partitions, 2 waiting for others to revoke theirs."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: tuple[TopicPartitions, ...] = ()
    partitions_pending_revocation: tuple[TopicPartitions, ...] = ()


class ConsumerGroupRegularExpressionKey(Struct, frozen=True, kw_only=True):
    group_id: String
    regular_expression: String


class ConsumerGroupRegularExpressionValue(Struct, frozen=True, kw_only=True):
    """The topics that matched, the version of the cluster's metadata that was used, and when."""

    topics: tuple[String, ...]
    version: Int64
    timestamp: Int64


Key = (
    ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)

FORMATS: Final = (
    StoredFormat(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
    StoredFormat(4, ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
    StoredFormat(5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
    StoredFormat(6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
    StoredFormat(7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
    StoredFormat(8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
    StoredFormat(16, ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
)
