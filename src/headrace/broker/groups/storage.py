"""Groups and offsets in the internal topic `__consumer_offsets`, in Kafka's own record formats.

What a value looks like in bytes is `protocol.stored`; here is which values are written, how many go into a batch,
and how a log of them becomes groups and offsets again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.broker.appends import Appends
from headrace.broker.error_codes import error_code
from headrace.broker.groups.consumer_state import ConsumerGroup
from headrace.broker.groups.consumer_storage import ReadConsumerGroups
from headrace.broker.groups.offsets import CommittedOffset, Offsets, TopicPartition
from headrace.broker.groups.state import Group, GroupState, Member, MemberProtocol
from headrace.broker.groups.transactional_offsets import PendingOffsets
from headrace.broker.stored_batches import batches_in
from headrace.log.partition_log import PartitionLog
from headrace.protocol import stored
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.primitives import MalformedMessage
from headrace.records.batch import NO_PRODUCER_ID
from headrace.records.control import MarkerType, decode_marker
from headrace.records.record import Record, encode_batch, iterate_records

logger = logging.getLogger(__name__)

OFFSETS_TOPIC = "__consumer_offsets"
BATCH_BYTES_MAX = 262_144
"""Many small records (a group's offsets going at once) are split into batches well below the topic's limit."""

# What Kafka 4 writes: the newest version that is not flexible. Version 1 alone has an expiry of its own.
GROUP_VALUE_VERSION = 3
OFFSET_VALUE_VERSION = 3
OFFSET_VALUE_VERSION_WITH_EXPIRY = 1


class KeyValue(NamedTuple):
    key: bytes
    value: bytes | None
    """None removes what the key stands for."""


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


async def append(appends: Appends, entries: Sequence[KeyValue], *, waits_for_disk: bool = True) -> None:
    """Write these in their order, and return when they are as durable as the broker's settings ask."""
    if not entries:
        return  # nor is the topic made for nothing
    [partition] = appends.topics.internal(OFFSETS_TOPIC).partitions
    now_ms = appends.clock.now_ms()
    for chunk in chunks(entries):
        records = [
            Record(offset=index, timestamp_ms=now_ms, key=entry.key, value=entry.value)
            for index, entry in enumerate(chunk)
        ]
        await appends.append(partition, encode_batch(records), waits_for_disk=waits_for_disk)


def append_at_once(appends: Appends, entries: Sequence[KeyValue]) -> asyncio.Future[None]:
    """Write these before anything else can happen; what is returned is done when they are durable."""
    [partition] = appends.topics.internal(OFFSETS_TOPIC).partitions
    now_ms = appends.clock.now_ms()
    assert entries, "nothing to wait for"
    for chunk in chunks(entries):
        records = [
            Record(offset=index, timestamp_ms=now_ms, key=entry.key, value=entry.value)
            for index, entry in enumerate(chunk)
        ]
        durable = appends.append_now(partition, encode_batch(records))
        # Whoever does not wait need not hear of a failure: the flusher logs it, and the next append is refused.
        durable.add_done_callback(lambda flushed: flushed.cancelled() or flushed.exception())
    return durable


def append_in_transaction(
    appends: Appends, entries: Sequence[KeyValue], *, producer_id: int, producer_epoch: int
) -> tuple[int, Awaitable[None]]:
    """Write these at once, as part of a producer's transaction: where they begin, and when they are durable.

    At once, because behind the marker that ends the transaction they would begin one that nobody ends.
    """
    [partition] = appends.topics.internal(OFFSETS_TOPIC).partitions
    now_ms = appends.clock.now_ms()
    first_offset = partition.log.end_offset
    assert entries, "nothing to wait for"
    for chunk in chunks(entries):
        records = [
            Record(offset=index, timestamp_ms=now_ms, key=entry.key, value=entry.value)
            for index, entry in enumerate(chunk)
        ]
        batch = encode_batch(
            records, producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True
        )
        durable = appends.append_now(partition, batch)
    return first_offset, durable


def end_offset(appends: Appends) -> int:
    """Where the next record will stand."""
    return appends.topics.internal(OFFSETS_TOPIC).partitions[0].log.end_offset


def chunks(entries: Iterable[KeyValue]) -> Iterator[list[KeyValue]]:
    chunk: list[KeyValue] = []
    size_bytes = 0
    for entry in entries:
        entry_bytes = len(entry.key) + len(entry.value or b"")
        if chunk and size_bytes + entry_bytes > BATCH_BYTES_MAX:
            yield chunk
            chunk, size_bytes = [], 0
        chunk.append(entry)
        size_bytes += entry_bytes
    if chunk:
        yield chunk


@dataclass(slots=True)
class Contents:
    """All groups and offsets that a log holds."""

    groups: dict[str, Group] = field(default_factory=dict)
    offsets: Offsets = field(default_factory=Offsets)
    pending: PendingOffsets = field(default_factory=PendingOffsets)
    consumer_groups: dict[str, ConsumerGroup] = field(default_factory=dict)
    read: ReadConsumerGroups = field(default_factory=ReadConsumerGroups)


def read_contents(log: PartitionLog, *, batch_bytes_max: int) -> Contents:
    """Read a whole log, from a thread that may wait for the disk; raises where it is damaged."""
    contents = Contents()
    for header, batch in batches_in(log):
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER_ID
        for record in iterate_records(batch, bytes_max=batch_bytes_max):
            try:
                if header.is_control:
                    _end_transaction(contents, producer_id, record)
                else:
                    _replay(contents, record, producer_id)
            except MalformedMessage as error:
                logger.error(
                    "record of %s skipped: %s", OFFSETS_TOPIC, error, extra={"log_offset": record.offset}
                )
    contents.consumer_groups = contents.read.groups()
    for group_id in contents.consumer_groups.keys() & contents.groups.keys():
        # One that changed its protocol when the disk was full: it is of the one that it has members of.
        is_newer = bool(contents.consumer_groups[group_id].members)
        del (contents.groups if is_newer else contents.consumer_groups)[group_id]
    # Whoever commits without ever joining is a group all the same.
    for group_id in contents.offsets.group_ids() - contents.consumer_groups.keys():
        contents.groups.setdefault(group_id, Group(group_id=group_id))
    return contents


def records_in(log: PartitionLog, batch_bytes_max: int, start_offset: int = 0) -> Iterator[Record]:
    """All records of a log from the batch of an offset on; raises where it is damaged."""
    for header, batch in batches_in(log, start_offset):
        if not header.is_control:
            yield from iterate_records(batch, bytes_max=batch_bytes_max)


def _end_transaction(contents: Contents, producer_id: int, record: Record) -> None:
    marker = decode_marker(record)
    if marker is not None:
        contents.pending.end(producer_id, contents.offsets, is_commit=marker.type is MarkerType.COMMIT)


def _replay(contents: Contents, record: Record, producer_id: int) -> None:
    key = stored.decode_key(record.key or b"")
    if isinstance(key, stored.OffsetCommitKey):
        partition = TopicPartition(key.topic, key.partition)
        if record.value is None:
            contents.offsets.remove(key.group, partition)
            contents.pending.supersede(key.group, partition, record.offset)
            return
        committed = _committed_offset(stored.decode_value(stored.OffsetCommitValue, record.value))
        if producer_id != NO_PRODUCER_ID:
            contents.pending.put(producer_id, key.group, {partition: committed}, record.offset)
        else:
            contents.offsets.put(key.group, partition, committed)
            contents.pending.supersede(key.group, partition, record.offset)
    elif isinstance(key, stored.GroupMetadataKey):
        if record.value is None:
            contents.groups.pop(key.group, None)
        else:
            contents.groups[key.group] = _group(
                key.group, stored.decode_value(stored.GroupMetadataValue, record.value)
            )
    else:
        contents.read.put(key, record.value)


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
    # Only the protocol that was chosen is stored; the others come back with the member's next join.
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


def told(failure: Exception) -> ErrorCode:
    """What a client is told when the log refused: to come again, unless coming again can't help."""
    code = error_code(failure)
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code is ErrorCode.KAFKA_STORAGE_ERROR else code
