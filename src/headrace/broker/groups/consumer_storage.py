"""Groups of the newer protocol in `__consumer_offsets`: the records of a change, and groups from records.

The records are Kafka's. A member is two of them: its subscription, and its assignment.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from headrace.broker.groups.assignors import Assignment
from headrace.broker.groups.consumer_state import (
    Change,
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    Epochs,
    EpochsChange,
    MemberChange,
    MemberState,
    Owned,
    PatternChange,
    Resolved,
    TargetChange,
)
from headrace.broker.groups.state import MemberProtocol
from headrace.broker.state_topic import KeyValue
from headrace.protocol import stored
from headrace.protocol import stored_consumer_groups as formats

Fact = tuple[formats.Key, object | None]
"""A key and its new value; None deletes it."""


def facts(group_id: str, changes: Iterable[Change]) -> Iterator[Fact]:
    """The records to append, in order: each prefix of them is consistent."""
    for change in changes:
        match change:
            case MemberChange():
                yield from _member_facts(group_id, change)
            case TargetChange(member_id=member_id):
                key = formats.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
                yield key, None if change.after is None else _target(change.after)
            case PatternChange(pattern=pattern):
                regex = formats.ConsumerGroupRegularExpressionKey(
                    group_id=group_id, regular_expression=pattern
                )
                yield regex, None if change.after is None else _regular_expression(change.after)
            case EpochsChange():
                yield from _epoch_facts(group_id, change)


def _member_facts(group_id: str, change: MemberChange) -> Iterator[Fact]:
    member_id, before, after = change.member_id, change.before, change.after
    metadata_key = formats.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    current_key = formats.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    if after is None:
        yield current_key, None
        yield metadata_key, None
        return
    if before is None or _metadata(before) != _metadata(after):
        yield metadata_key, _metadata(after)
    if before is None or _current(before) != _current(after):
        yield current_key, _current(after)


def _metadata(member: ConsumerMember) -> formats.ConsumerGroupMemberMetadataValue:
    return formats.ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topics,
        subscribed_topic_regex=member.pattern,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=None
        if member.classic is None
        else formats.ClassicMemberMetadata(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=tuple(
                formats.ClassicProtocol(name=offer.name, metadata=offer.metadata)
                for offer in member.classic.protocols
            ),
        ),
    )


def _current(member: ConsumerMember) -> formats.ConsumerGroupCurrentMemberAssignmentValue:
    return formats.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=_stored_owned(member.assigned),
        partitions_pending_revocation=_stored_owned(member.revoking),
    )


def _stored_owned(owned: Owned) -> tuple[formats.TopicPartitions, ...]:
    return tuple(
        formats.TopicPartitions(
            topic_id=topic_id,
            partitions=tuple(sorted(partitions)),
            assignment_epochs=tuple(partitions[partition] for partition in sorted(partitions)),
        )
        for topic_id, partitions in owned.items()
    )


def _target(target: Assignment) -> formats.ConsumerGroupTargetAssignmentMemberValue:
    return formats.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=tuple(
            formats.TopicPartition(topic_id=topic_id, partitions=tuple(sorted(partitions)))
            for topic_id, partitions in target.items()
        )
    )


def _regular_expression(resolved: Resolved) -> formats.ConsumerGroupRegularExpressionValue:
    return formats.ConsumerGroupRegularExpressionValue(
        topics=tuple(sorted(resolved.topics)),
        version=resolved.version,
        timestamp=resolved.resolved_at_ms,
    )


def _epoch_facts(group_id: str, change: EpochsChange) -> Iterator[Fact]:
    before, after = change.before, change.after
    if (before.group, before.topics_hash) != (after.group, after.topics_hash):
        yield (
            formats.ConsumerGroupMetadataKey(group_id=group_id),
            formats.ConsumerGroupMetadataValue(epoch=after.group, metadata_hash=after.topics_hash),
        )
    if (before.target, before.assigned_at_ms) != (after.target, after.assigned_at_ms):
        yield (
            formats.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
            formats.ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=after.target, assignment_timestamp=after.assigned_at_ms
            ),
        )


def tombstones(group: ConsumerGroup) -> Iterator[Fact]:
    """The tombstones of a group and all of its members; the group itself is last, and deletes it."""
    removals: list[Change] = [
        *(
            MemberChange(member_id=member_id, before=member, after=None)
            for member_id, member in group.members.items()
        ),
        *(
            TargetChange(member_id=member_id, before=target, after=None)
            for member_id, target in group.targets.items()
        ),
        *(
            PatternChange(pattern=pattern, before=resolved, after=None)
            for pattern, resolved in group.patterns.items()
        ),
    ]
    yield from facts(group.group_id, removals)
    yield formats.ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id), None
    yield formats.ConsumerGroupMetadataKey(group_id=group.group_id), None


def entries(changed: Iterable[Fact]) -> Iterable[KeyValue]:
    """Each key once, with its last value, at the position of its last change."""
    last: dict[bytes, bytes | None] = {}
    for key, value in changed:
        encoded = stored.encode_key(key)
        last.pop(encoded, None)
        last[encoded] = None if value is None else stored.encode_value(value)
    return (KeyValue(key, value) for key, value in last.items())


# From records to groups


_VALUES = {one.key: one.value for one in formats.FORMATS}


class ReadConsumerGroups:
    """Collects records as they are read, the last of each key, and builds groups from them at the end."""

    def __init__(self) -> None:
        self._records: dict[str, dict[formats.Key, Any]] = {}

    def put(self, key: formats.Key, data: bytes | None) -> None:
        records = self._records.setdefault(key.group_id, {})
        if data is not None:
            records[key] = stored.decode_value(_VALUES[type(key)], data)
        elif isinstance(key, formats.ConsumerGroupMetadataKey):
            del self._records[key.group_id]
        else:
            records.pop(key, None)

    def groups(self) -> dict[str, ConsumerGroup]:
        return {
            group_id: _group(group_id, records)
            for group_id, records in self._records.items()
            if formats.ConsumerGroupMetadataKey(group_id=group_id) in records
        }


def _group(group_id: str, records: Mapping[formats.Key, Any]) -> ConsumerGroup:
    group, epochs = ConsumerGroup(group_id), Epochs()
    for key, value in records.items():
        match key:
            case formats.ConsumerGroupMetadataKey():
                epochs = replace(epochs, group=value.epoch, topics_hash=value.metadata_hash)
            case formats.ConsumerGroupTargetAssignmentMetadataKey():
                epochs = replace(
                    epochs, target=value.assignment_epoch, assigned_at_ms=value.assignment_timestamp
                )
            case formats.ConsumerGroupMemberMetadataKey(member_id=member_id):
                current = formats.ConsumerGroupCurrentMemberAssignmentKey(
                    group_id=group_id, member_id=member_id
                )
                member = _member(member_id, value, records.get(current))
                group.apply(MemberChange(member_id=member_id, before=None, after=member))
            case formats.ConsumerGroupTargetAssignmentMemberKey(member_id=member_id):
                if formats.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id) in records:
                    target = {one.topic_id: frozenset(one.partitions) for one in value.topic_partitions}
                    group.apply(TargetChange(member_id=member_id, before=None, after=target))
            case formats.ConsumerGroupRegularExpressionKey(regular_expression=pattern):
                resolved = Resolved(
                    topics=frozenset(value.topics), version=value.version, resolved_at_ms=value.timestamp
                )
                group.apply(PatternChange(pattern=pattern, before=None, after=resolved))
            case _:
                pass  # a member's current assignment, read with it; topics, which only older Kafka versions write
    group.apply(EpochsChange(before=group.epochs, after=epochs))
    return group


def _member(
    member_id: str,
    metadata: formats.ConsumerGroupMemberMetadataValue,
    current: formats.ConsumerGroupCurrentMemberAssignmentValue | None,
) -> ConsumerMember:
    classic = metadata.classic_member_metadata
    member = ConsumerMember(
        member_id=member_id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topics=metadata.subscribed_topic_names,
        pattern=metadata.subscribed_topic_regex or None,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        assignor=metadata.server_assignor,
        classic=None
        if classic is None
        else ClassicSide(
            session_timeout_ms=classic.session_timeout_ms,
            protocols=tuple(
                MemberProtocol(name=offer.name, metadata=bytes(offer.metadata))
                for offer in classic.supported_protocols
            ),
        ),
    )
    if current is None:
        return member
    return replace(
        member,
        epoch=current.member_epoch,
        previous_epoch=current.previous_member_epoch,
        state=MemberState(current.state),
        assigned=_owned(current.assigned_partitions, current.member_epoch),
        revoking=_owned(current.partitions_pending_revocation, current.member_epoch),
    )


def _owned(partitions: Iterable[formats.TopicPartitions], member_epoch: int) -> Owned:
    owned: dict[uuid.UUID, dict[int, int]] = {}
    for one in partitions:
        # Kafka before 4.3 did not store the epochs of partitions; then they are the member's.
        epochs = one.assignment_epochs or (member_epoch,) * len(one.partitions)
        owned[one.topic_id] = dict(zip(one.partitions, epochs, strict=True))
    return owned
