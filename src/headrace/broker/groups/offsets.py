"""Committed offsets in memory, and which of them expire."""

from __future__ import annotations

from collections.abc import Collection, Iterator, KeysView, Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from headrace.broker.groups.consumer_embedded import is_subscribed, subscribed_topics
from headrace.broker.groups.state import Group, GroupState


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class CommittedOffset(Struct, frozen=True, kw_only=True):
    offset: int
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    expires_at_ms: int | None = None
    """Set only by old clients that choose a retention of their own."""


NO_OFFSETS: Mapping[TopicPartition, CommittedOffset] = MappingProxyType({})


class Offsets:
    """The committed offsets of all groups. They are durable before they are added, so clients see only durable ones."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, CommittedOffset]] = {}

    def __len__(self) -> int:
        return sum(len(offsets) for offsets in self._by_group.values())

    def of(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        return self._by_group.get(group_id, NO_OFFSETS)

    def group_ids(self) -> KeysView[str]:
        return self._by_group.keys()

    def put(self, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        self._by_group.setdefault(group_id, {})[partition] = committed

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        offsets = self._by_group.get(group_id)
        if offsets is None:
            return
        offsets.pop(partition, None)
        if not offsets:
            del self._by_group[group_id]

    def of_topic(self, topic: str) -> Iterator[tuple[str, TopicPartition]]:
        """Every group and partition with an offset in this topic."""
        for group_id, offsets in self._by_group.items():
            for partition in offsets:
                if partition.topic == topic:
                    yield group_id, partition


def expired(
    group: Group, offsets: Mapping[TopicPartition, CommittedOffset], *, now_ms: int, retention_ms: int
) -> list[TopicPartition]:
    """The offsets of a group that have expired.

    Those of a group with members are kept while it consumes their topic; those of an empty group live for the
    retention after its last member left; those of a group that never had members for the retention after the commit.
    """
    if group.protocol_type is None:
        empty_since_ms = None
    elif group.state is GroupState.EMPTY:
        empty_since_ms = group.state_since_ms
    elif group.state is GroupState.STABLE and subscribed_topics(group) is not None:
        empty_since_ms = None
    else:
        return []

    consumed = {topic for topic in {partition.topic for partition in offsets} if is_subscribed(group, topic)}
    return unused(offsets, consumed, now_ms=now_ms, retention_ms=retention_ms, since_ms=empty_since_ms)


def unused(
    offsets: Mapping[TopicPartition, CommittedOffset],
    consumed: Collection[str],
    *,
    now_ms: int,
    retention_ms: int,
    since_ms: int | None = None,
) -> list[TopicPartition]:
    """The offsets of topics that are not consumed, when the retention since their commit, or since then, is over."""

    def is_old(committed: CommittedOffset) -> bool:
        if committed.expires_at_ms is not None:
            return now_ms >= committed.expires_at_ms
        return now_ms - (committed.committed_at_ms if since_ms is None else since_ms) >= retention_ms

    return [
        partition
        for partition, committed in offsets.items()
        if partition.topic not in consumed and is_old(committed)
    ]
