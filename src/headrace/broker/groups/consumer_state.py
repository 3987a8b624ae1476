"""A group of the newer protocol (KIP-848), its members, and the changes that lead from one state to the next.

Every change has the value before, so that it can be undone if it can't be stored, and is one or two records of
`__consumer_offsets` (`consumer_storage`). What depends on all members is updated with each change, so that the cost of
a heartbeat does not depend on their number.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, IntEnum
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.broker.groups.assignors import NO_ASSIGNMENT, Assignment, TopicIdPartition
from headrace.broker.groups.state import MemberProtocol

ValueT = TypeVar("ValueT")

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2


class ConsumerGroupState(Enum):
    """The value is the name that clients get."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class MemberState(IntEnum):
    """The state of a member's reconciliation; the numbers are those on disk."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It has to revoke partitions, and has not confirmed that."""
    UNRELEASED_PARTITIONS = 2
    """It owns the free partitions of its target, and waits for others to revoke the rest."""


Owned: TypeAlias = Mapping[uuid.UUID, Mapping[int, int]]
"""Partitions of topics, each with the epoch in which the member got it."""


class ClassicSide(Struct, frozen=True, kw_only=True):
    """The state of a classic member in a group of the newer protocol."""

    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]


class ConsumerMember(Struct, frozen=True, kw_only=True):
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    """A regular expression for more topics."""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicSide | None = None
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    revoking: Owned = field(default_factory=dict)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def subscribes_like(self, other: ConsumerMember) -> bool:
        return self.topics == other.topics and self.pattern == other.pattern

    def owned_partitions(self) -> Iterator[TopicIdPartition]:
        """All partitions that no other member may own now."""
        for owned in (self.assigned, self.revoking):
            for topic_id, partitions in owned.items():
                for partition in partitions:
                    yield TopicIdPartition(topic_id, partition)


class FoundTopic(Protocol):
    @property
    def id(self) -> uuid.UUID: ...

    @property
    def name(self) -> str: ...

    @property
    def partition_count(self) -> int: ...


class Catalog(Protocol):
    """The topics of the broker. A pattern matches internal topics too, as in Kafka."""

    @property
    def version(self) -> int:
        """Changes when a topic is created, extended or deleted."""

    def __iter__(self) -> Iterator[FoundTopic]: ...

    def get(self, name: str, /) -> FoundTopic | None: ...

    def get_by_id(self, topic_id: uuid.UUID, /) -> FoundTopic | None: ...


class Resolved(Struct, frozen=True, kw_only=True):
    """The topics that a regular expression matches."""

    topics: frozenset[str]
    version: int
    resolved_at_ms: int


class Epochs(Struct, frozen=True, kw_only=True):
    group: int = 0
    """Grows with every change of members, subscriptions or topics."""
    topics_hash: int = 0
    """Of the subscribed topics: if it changes, partitions are assigned again."""
    target: int = 0
    """The group epoch of the target assignment."""
    assigned_at_ms: int = 0


# Changes. `after` replaces `before`; None is no value.


class MemberChange(Struct, frozen=True, kw_only=True):
    member_id: str
    before: ConsumerMember | None
    after: ConsumerMember | None


class TargetChange(Struct, frozen=True, kw_only=True):
    member_id: str
    before: Assignment | None
    after: Assignment | None


class PatternChange(Struct, frozen=True, kw_only=True):
    pattern: str
    before: Resolved | None
    after: Resolved | None


class EpochsChange(Struct, frozen=True, kw_only=True):
    before: Epochs
    after: Epochs


Change = MemberChange | TargetChange | PatternChange | EpochsChange


class ConsumerGroup:
    """`apply` is the only way to change it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epochs = Epochs()
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Assignment] = {}
        self.patterns: dict[str, Resolved] = {}
        self.seen_version: int | None = None
        """The version of the topics at the last check; not stored."""
        self._owners: dict[TopicIdPartition, str] = {}
        self._instances: dict[str, str] = {}
        self._topic_counts: Counter[str] = Counter()
        self._pattern_counts: Counter[str] = Counter()
        self._assignor_counts: Counter[str] = Counter()
        self._classic_protocols: Counter[str] = Counter()
        self.classic_count = 0

    def apply(self, change: Change) -> None:
        match change:
            case MemberChange():
                self._apply_member(change.before, change.after)
            case TargetChange():
                _set(self.targets, change.member_id, change.after)
            case PatternChange():
                _set(self.patterns, change.pattern, change.after)
            case EpochsChange():
                self.epochs = change.after

    def revert(self, change: Change) -> None:
        self.apply(replace(change, before=change.after, after=change.before))
        self.seen_version = None

    def _apply_member(self, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        if before is not None:
            self._count(before, -1)
            for partition in before.owned_partitions():
                # It may have another owner in the meantime.
                if self._owners.get(partition) == before.member_id:
                    del self._owners[partition]
            if before.instance_id and self._instances.get(before.instance_id) == before.member_id:
                del self._instances[before.instance_id]
            if after is None or after.member_id != before.member_id:
                del self.members[before.member_id]
        if after is not None:
            self._count(after, 1)
            self.members[after.member_id] = after
            for partition in after.owned_partitions():
                self._owners[partition] = after.member_id
            if after.instance_id:
                self._instances[after.instance_id] = after.member_id

    def _count(self, member: ConsumerMember, by: int) -> None:
        _add(self._topic_counts, member.topics, by)
        _add(self._pattern_counts, (member.pattern,) if member.pattern else (), by)
        _add(self._assignor_counts, (member.assignor,) if member.assignor else (), by)
        if member.classic is not None:
            self.classic_count += by
            _add(self._classic_protocols, {offer.name for offer in member.classic.protocols}, by)

    # Queries

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epochs.group > self.epochs.target:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.epochs.target) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def owner(self, partition: TopicIdPartition) -> str | None:
        return self._owners.get(partition)

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self._instances.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NO_ASSIGNMENT)

    def wanted_topics(self, member: ConsumerMember) -> frozenset[str]:
        """By name and by pattern."""
        resolved = self.patterns.get(member.pattern) if member.pattern else None
        named = frozenset(member.topics)
        return named if resolved is None else named | resolved.topics

    def subscribed_topics(self) -> set[str]:
        topics = set(self._topic_counts)
        for pattern in self._pattern_counts:
            if pattern in self.patterns:
                topics |= self.patterns[pattern].topics
        return topics

    def used_patterns(self) -> Iterable[str]:
        return self._pattern_counts.keys()

    def most_wanted_assignor(self, otherwise: str) -> str:
        return max(self._assignor_counts, key=self._assignor_counts.__getitem__, default=otherwise)

    def supports_classic(self, protocols: Iterable[MemberProtocol]) -> bool:
        """Whether a classic member that offers these has one in common with all others of its kind."""
        names = [offer.name for offer in protocols]
        if not self.classic_count:
            return bool(names)
        return any(self._classic_protocols[name] == self.classic_count for name in names)


def _set(values: dict[str, ValueT], key: str, value: ValueT | None) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _add(counts: Counter[str], names: Iterable[str], by: int) -> None:
    for name in names:
        counts[name] += by
        if not counts[name]:
            del counts[name]
