"""Groups and offsets in the internal topic `__consumer_offsets`, in Kafka's own record formats.

`protocol.stored` has the bytes of a value. Here is which values are written, and how their records become groups and
offsets again.
"""

from __future__ import annotations

from msgspec import Struct, field

from headrace.broker.error_codes import error_code
from headrace.broker.groups.consumer_state import ConsumerGroup
from headrace.broker.groups.consumer_storage import ReadConsumerGroups
from headrace.broker.groups.offsets import CommittedOffset, Offsets, TopicPartition
from headrace.broker.groups.state import Group, GroupState, Member, MemberProtocol
from headrace.broker.groups.transactional_offsets import PendingOffsets
from headrace.broker.state_topic import KeyValue
from headrace.protocol import stored
from headrace.protocol import stored_consumer_groups as consumer_groups
from headrace.protocol.error_codes import ErrorCode
from headrace.records.batch import NO_PRODUCER_ID, BatchHeader
from headrace.records.control import MarkerType, decode_marker
from headrace.records.record import Record

OFFSETS_TOPIC = "__consumer_offsets"

# The versions that Kafka 4 writes: the newest that is not flexible. Only version 1 has a field for an expiry.
GROUP_VALUE_VERSION = 3
OFFSET_VALUE_VERSION = 3
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1


def offset_record(group_id: str, partition: TopicPartition, committed: CommittedOffset) -> KeyValue:
    has_expiry = committed.expires_at_ms is not None
    value = stored.OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.committed_at_ms,
        expire_timestamp=-1 if committed.expires_at_ms is None else committed.expires_at_ms,
    )
    version = OFFSET_VALUE_VERSION_WITH_EXPIRY if has_expiry else OFFSET_VALUE_VERSION
    return KeyValue(_offset_key(group_id, partition), stored.encode_value(value, version))


def offset_tombstone(group_id: str, partition: TopicPartition) -> KeyValue:
    return KeyValue(_offset_key(group_id, partition), None)


def _offset_key(group_id: str, partition: TopicPartition) -> bytes:
    key = stored.OffsetCommitKey(group=group_id, topic=partition.topic, partition=partition.partition)
    return stored.encode_key(key)


def group_record(group: Group) -> KeyValue:
    value = stored.GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=-1 if group.state_since_ms is None else group.state_since_ms,
        members=tuple(_stored_member(group, member) for member in group.members.values()),
    )
    key = stored.encode_key(stored.GroupMetadataKey(group=group.group_id))
    return KeyValue(key, stored.encode_value(value, GROUP_VALUE_VERSION))


def _stored_member(group: Group, member: Member) -> stored.MemberMetadata:
    return stored.MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata_for(group.protocol_name),
        assignment=member.assignment,
    )


def group_tombstone(group_id: str) -> KeyValue:
    return KeyValue(stored.encode_key(stored.GroupMetadataKey(group=group_id)), None)


class Contents(Struct):
    """All groups and offsets of a log."""

    groups: dict[str, Group] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    pending: PendingOffsets = field(default_factory=PendingOffsets)
    consumer_groups: dict[str, ConsumerGroup] = field(default_factory=dict)
    _read: ReadConsumerGroups = field(default_factory=ReadConsumerGroups)

    def apply(self, header: BatchHeader, record: Record) -> None:
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        if header.is_control:
            marker = decode_marker(record)
            if marker is not None:
                self.pending.end(producer_id, self.offsets, is_commit=marker.type is MarkerType.COMMIT)
            return
        key = stored.decode_key(record.key or b"")
        if isinstance(key, stored.OffsetCommitKey):
            self._apply_offset(key, record, producer_id)
        elif isinstance(key, consumer_groups.Key):
            self._read.put(key, record.value)
        elif isinstance(key, stored.GroupMetadataKey):
            if record.value is None:
                self.groups.pop(key.group, None)
            else:
                value = stored.decode_value(stored.GroupMetadataValue, record.value)
                self.groups[key.group] = _group(key.group, value)

    def _apply_offset(self, key: stored.OffsetCommitKey, record: Record, producer_id: int) -> None:
        partition = TopicPartition(key.topic, key.partition)
        if record.value is None:
            self.offsets.remove(key.group, partition)
            self.pending.supersede(key.group, partition, record.offset)
            return
        committed = _committed_offset(stored.decode_value(stored.OffsetCommitValue, record.value))
        if producer_id != NO_PRODUCER_ID:
            self.pending.put(producer_id, key.group, {partition: committed}, record.offset)
        else:
            self.offsets.put(key.group, partition, committed)
            self.pending.supersede(key.group, partition, record.offset)

    def complete(self) -> None:
        self.consumer_groups = self._read.groups()
        for group_id in self.consumer_groups.keys() & self.groups.keys():
            # It changed its protocol while the disk was full: its protocol is the one that it has members of.
            is_newer = bool(self.consumer_groups[group_id].members)
            del (self.groups if is_newer else self.consumer_groups)[group_id]
        # A consumer that commits without ever joining has a group, too.
        for group_id in self.offsets.group_ids() - self.consumer_groups.keys():
            self.groups.setdefault(group_id, Group(group_id=group_id))


def _committed_offset(value: stored.OffsetCommitValue) -> CommittedOffset:
    return CommittedOffset(
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        committed_at_ms=value.commit_timestamp,
        expires_at_ms=None if value.expire_timestamp == -1 else value.expire_timestamp,
    )


def _group(group_id: str, value: stored.GroupMetadataValue) -> Group:
    group = Group(
        group_id=group_id,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        state_since_ms=None if value.current_state_timestamp == -1 else value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol_name=value.protocol,
        leader_id=value.leader,
    )
    return group.put(*(_member(value, member) for member in value.members))


def _member(value: stored.GroupMetadataValue, member: stored.MemberMetadata) -> Member:
    # Only the chosen protocol is stored; the member sends the others with its next join.
    chosen = MemberProtocol(name=value.protocol or "", metadata=member.subscription)
    return Member(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout,
        rebalance_timeout_ms=member.session_timeout
        if member.rebalance_timeout == -1
        else member.rebalance_timeout,
        protocols=(chosen,),
        assignment=member.assignment,
    )


def append_error(failure: Exception) -> ErrorCode:
    """The code for a client whose change could not be appended: one to retry after, unless a retry can't help."""
    code = error_code(failure)
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code is ErrorCode.KAFKA_STORAGE_ERROR else code
