"""What `__consumer_offsets` keeps of groups of the newer protocol (KIP-848): one record for each fact.

A group is its epoch, its members with their subscriptions, the assignment that it is moving to, and the one that each
member has. Names are Kafka's. Encoding and decoding are in `stored`.
"""

from __future__ import annotations

from typing import Annotated, Final

from headrace.protocol.stored_format import StoredFormat
from headrace.protocol.types import Bytes, Int8, Int32, Int64, NullableString, String, Uuid, tagged
from headrace.values import value


@value
class ConsumerGroupMetadataKey:
    group_id: String


@value
class ConsumerGroupMetadataValue:
    """The hash is of the topics subscribed to: another one is a reason to assign anew."""

    epoch: Int32
    metadata_hash: Annotated[Int64, tagged(0)] = 0


@value
class ConsumerGroupPartitionMetadataKey:
    group_id: String


@value
class PartitionMetadata:
    partition: Int32
    racks: tuple[String, ...] = ()


@value
class TopicMetadata:
    topic_id: Uuid
    topic_name: String
    num_partitions: Int32
    partition_metadata: tuple[PartitionMetadata, ...] = ()


@value
class ConsumerGroupPartitionMetadataValue:
    """The topics subscribed to, as Kafka 4.0 kept them; read, and no longer written."""

    topics: tuple[TopicMetadata, ...] = ()


@value
class ConsumerGroupMemberMetadataKey:
    group_id: String
    member_id: String


@value
class ClassicProtocol:
    name: String
    metadata: Bytes


@value
class ClassicMemberMetadata:
    session_timeout_ms: Int32 = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()


@value
class ConsumerGroupMemberMetadataValue:
    """A member that speaks the classic protocol in a group of the newer one has `classic_member_metadata`.

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


@value
class ConsumerGroupTargetAssignmentMetadataKey:
    group_id: String


@value
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group's epoch that the target assignment was made for, and when."""

    assignment_epoch: Int32
    assignment_timestamp: Annotated[Int64, tagged(0)] = 0


@value
class ConsumerGroupTargetAssignmentMemberKey:
    group_id: String
    member_id: String


@value
class TopicPartition:
    topic_id: Uuid
    partitions: tuple[Int32, ...]


@value
class ConsumerGroupTargetAssignmentMemberValue:
    topic_partitions: tuple[TopicPartition, ...] = ()


@value
class ConsumerGroupCurrentMemberAssignmentKey:
    group_id: String
    member_id: String


@value
class TopicPartitions:
    """The epochs, one for each partition, are those at which the member got it: older commits are refused.

    Records of older versions have none.
    """

    topic_id: Uuid
    partitions: tuple[Int32, ...]
    assignment_epochs: Annotated[tuple[Int32, ...] | None, tagged(0)] = ()


@value
class ConsumerGroupCurrentMemberAssignmentValue:
    """States: 0 stable, 1 still to give partitions up, 2 waiting for others to do so."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: tuple[TopicPartitions, ...] = ()
    partitions_pending_revocation: tuple[TopicPartitions, ...] = ()


@value
class ConsumerGroupRegularExpressionKey:
    group_id: String
    regular_expression: String


@value
class ConsumerGroupRegularExpressionValue:
    """The topics that matched, the version of the cluster's metadata that was looked at, and when."""

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
    StoredFormat(kind=3, key=ConsumerGroupMetadataKey, value=ConsumerGroupMetadataValue),
    StoredFormat(kind=4, key=ConsumerGroupPartitionMetadataKey, value=ConsumerGroupPartitionMetadataValue),
    StoredFormat(kind=5, key=ConsumerGroupMemberMetadataKey, value=ConsumerGroupMemberMetadataValue),
    StoredFormat(
        kind=6,
        key=ConsumerGroupTargetAssignmentMetadataKey,
        value=ConsumerGroupTargetAssignmentMetadataValue,
    ),
    StoredFormat(
        kind=7,
        key=ConsumerGroupTargetAssignmentMemberKey,
        value=ConsumerGroupTargetAssignmentMemberValue,
    ),
    StoredFormat(
        kind=8,
        key=ConsumerGroupCurrentMemberAssignmentKey,
        value=ConsumerGroupCurrentMemberAssignmentValue,
    ),
    StoredFormat(kind=16, key=ConsumerGroupRegularExpressionKey, value=ConsumerGroupRegularExpressionValue),
)
