"""Groups of the newer protocol in `__consumer_offsets`: the records of a change, and groups from records.

The records are Kafka's. A member is two of them: what it says of itself, and what it has.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import TypeVar

from msgspec import Struct, field
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

ValueT = TypeVar("ValueT")

Fact = tuple[formats.Key, object | None]
"""A key and its new value; None deletes it."""


def facts(group_id: str, changes: Iterable[Change]) -> Iterator[Fact]:
    """The records to append, in order: each prefix of them is consistent."""
    for change in changes:
        match change:
            case MemberChange():
                yield from _member_facts(group_id, change)
            case TargetChange():
                target = None if change.after is None else _target(change.after)
                yield (
                    formats.ConsumerGroupTargetAssignmentMemberKey(
                        group_id=group_id, member_id=change.member_id
                    ),
                    target,
                )
            case PatternChange():
                yield (
                    formats.ConsumerGroupRegularExpressionKey(
                        group_id=group_id, regular_expression=change.pattern
                    ),
                    None if change.after is None else _regular_expression(change.after),
                )
            case EpochsChange():
                yield from _epoch_facts(group_id, change)


def _member_facts(group_id: str, change: MemberChange) -> Iterator[Fact]:
    before, after = change.before, change.after
    metadata_key = formats.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=change.member_id)
    current_key = formats.ConsumerGroupCurrentMemberAssignmentKey(
        group_id=group_id, member_id=change.member_id
    )
    if after is None:
        yield current_key, None
        yield metadata_key, None
        return
    metadata = _metadata(after)
    if before is None or _metadata(before) != metadata:
        yield metadata_key, metadata
    current = _current(after)
    if before is None or _current(before) != current:
        yield current_key, current


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
    group_id = group.group_id
    for member_id in group.members:
        yield (
            formats.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
            None,
        )
    for member_id in group.targets:
        yield formats.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None
    yield formats.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None
    for member_id in group.members:
        yield formats.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None
    for pattern in group.patterns:
        yield (
            formats.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern),
            None,
        )
    yield formats.ConsumerGroupMetadataKey(group_id=group_id), None


def entries(changed: Iterable[Fact]) -> Iterable[KeyValue]:
    """Each key once, with its last value, at the place of its last change."""
    last: dict[bytes, bytes | None] = {}
    for key, value in changed:
        encoded = stored.encode_key(key)
        last.pop(encoded, None)
        last[encoded] = None if value is None else stored.encode_value(value)
    return (KeyValue(key, value) for key, value in last.items())


# From records to groups


class _Parts(Struct):
    """The records of one group: the last of each key, in any order."""

    epoch: formats.ConsumerGroupMetadataValue | None = None
    target_epoch: formats.ConsumerGroupTargetAssignmentMetadataValue | None = None
    metadata: dict[str, formats.ConsumerGroupMemberMetadataValue] = field(default_factory=dict)
    current: dict[str, formats.ConsumerGroupCurrentMemberAssignmentValue] = field(default_factory=dict)
    targets: dict[str, formats.ConsumerGroupTargetAssignmentMemberValue] = field(default_factory=dict)
    patterns: dict[str, formats.ConsumerGroupRegularExpressionValue] = field(default_factory=dict)


class ReadConsumerGroups:
    """Collects records as they are read, and builds groups from them at the end."""

    def __init__(self) -> None:
        self._parts: dict[str, _Parts] = {}

    def put(self, key: object, data: bytes | None) -> bool:
        """Whether it was a record of such a group."""
        match key:
            case formats.ConsumerGroupMetadataKey():
                if data is None:
                    self._parts.pop(key.group_id, None)
                else:
                    self._of(key.group_id).epoch = stored.decode_value(
                        formats.ConsumerGroupMetadataValue, data
                    )
            case formats.ConsumerGroupTargetAssignmentMetadataKey():
                self._of(key.group_id).target_epoch = _decoded(
                    formats.ConsumerGroupTargetAssignmentMetadataValue, data
                )
            case formats.ConsumerGroupMemberMetadataKey():
                value = _decoded(formats.ConsumerGroupMemberMetadataValue, data)
                _set(self._of(key.group_id).metadata, key.member_id, value)
            case formats.ConsumerGroupCurrentMemberAssignmentKey():
                current = _decoded(formats.ConsumerGroupCurrentMemberAssignmentValue, data)
                _set(self._of(key.group_id).current, key.member_id, current)
            case formats.ConsumerGroupTargetAssignmentMemberKey():
                target = _decoded(formats.ConsumerGroupTargetAssignmentMemberValue, data)
                _set(self._of(key.group_id).targets, key.member_id, target)
            case formats.ConsumerGroupRegularExpressionKey():
                pattern = _decoded(formats.ConsumerGroupRegularExpressionValue, data)
                _set(self._of(key.group_id).patterns, key.regular_expression, pattern)
            case formats.ConsumerGroupPartitionMetadataKey():
                pass  # written by older Kafka versions; the topics themselves have it
            case _:
                return False
        return True

    def _of(self, group_id: str) -> _Parts:
        return self._parts.setdefault(group_id, _Parts())

    def groups(self) -> dict[str, ConsumerGroup]:
        return {
            group_id: _group(group_id, parts)
            for group_id, parts in self._parts.items()
            if parts.epoch is not None
        }


def _decoded(cls: type[ValueT], data: bytes | None) -> ValueT | None:
    return None if data is None else stored.decode_value(cls, data)


def _set(values: dict[str, ValueT], name: str, value: ValueT | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def _group(group_id: str, parts: _Parts) -> ConsumerGroup:
    assert parts.epoch is not None
    group = ConsumerGroup(group_id)
    epochs = Epochs(group=parts.epoch.epoch, topics_hash=parts.epoch.metadata_hash)
    if parts.target_epoch is not None:
        epochs = replace(
            epochs,
            target=parts.target_epoch.assignment_epoch,
            assigned_at_ms=parts.target_epoch.assignment_timestamp,
        )
    group.apply(EpochsChange(before=group.epochs, after=epochs))
    for member_id, metadata in parts.metadata.items():
        member = _member(member_id, metadata, parts.current.get(member_id))
        group.apply(MemberChange(member_id=member_id, before=None, after=member))
        target = parts.targets.get(member_id)
        if target is not None:
            group.apply(TargetChange(member_id=member_id, before=None, after=_assignment(target)))
    for pattern, value in parts.patterns.items():
        resolved = Resolved(
            topics=frozenset(value.topics), version=value.version, resolved_at_ms=value.timestamp
        )
        group.apply(PatternChange(pattern=pattern, before=None, after=resolved))
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
        # Kafka before 4.3 did not store the time; then it is the current time.
        epochs = one.assignment_epochs or (member_epoch,) * len(one.partitions)
        owned[one.topic_id] = dict(zip(one.partitions, epochs, strict=True))
    return owned


def _assignment(target: formats.ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
    return {one.topic_id: frozenset(one.partitions) for one in target.topic_partitions}
