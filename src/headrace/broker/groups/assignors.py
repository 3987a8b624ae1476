"""The assignors of the newer protocol, in which the broker assigns partitions: two pure functions.

`uniform` gives all members the same number, and moves as few partitions as possible. `range` gives each member
consecutive partitions of every topic, the same ones in topics of the same size, and ignores earlier assignments.
"""

from __future__ import annotations

import heapq
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field

Assignment = Mapping[uuid.UUID, frozenset[int]]
PartitionCounts = Mapping[uuid.UUID, int]

NO_ASSIGNMENT: Assignment = {}


class TopicIdPartition(NamedTuple):
    """One partition of one topic."""

    topic_id: uuid.UUID
    partition: int


class Candidate(Struct, frozen=True, kw_only=True):
    """A member as the assignors see it."""

    member_id: str
    instance_id: str | None = None
    topic_ids: frozenset[uuid.UUID]
    """The topics that it subscribes to."""
    earlier: Assignment = field(default_factory=dict)
    """Its last assignment."""


Assignor = Callable[[Sequence[Candidate], PartitionCounts], dict[str, Assignment]]


def range_(candidates: Sequence[Candidate], partition_counts: PartitionCounts) -> dict[str, Assignment]:
    # A static member keeps its rank when it returns with another id.
    ordered = sorted(candidates, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id))
    given: dict[str, dict[uuid.UUID, frozenset[int]]] = {one.member_id: {} for one in candidates}
    for topic_id, subscribers in _by_topic(ordered, partition_counts).items():
        least, longer = divmod(partition_counts[topic_id], len(subscribers))
        start = 0
        for index, one in enumerate(subscribers):
            end = start + least + (index < longer)
            if end > start:
                given[one.member_id][topic_id] = frozenset(range(start, end))
            start = end
    return {**given}


def uniform(candidates: Sequence[Candidate], partition_counts: PartitionCounts) -> dict[str, Assignment]:
    if not candidates:
        return {}
    if len({one.topic_ids for one in candidates}) == 1:
        assigned = _assign_evenly(candidates, partition_counts)
    else:
        assigned = _assign_by_load(candidates, partition_counts)
    return {one.member_id: _frozen(assigned[one.member_id], one.earlier) for one in candidates}


def _frozen(assigned: Iterable[TopicIdPartition], earlier: Assignment) -> Assignment:
    by_topic: dict[uuid.UUID, set[int]] = {}
    for topic_id, partition in assigned:
        by_topic.setdefault(topic_id, set()).add(partition)
    if by_topic == earlier:
        return earlier  # the same object, so that an unchanged assignment is recognized immediately
    return {topic_id: frozenset(partitions) for topic_id, partitions in by_topic.items()}


def _by_topic(
    candidates: Iterable[Candidate], partition_counts: PartitionCounts
) -> dict[uuid.UUID, list[Candidate]]:
    subscribers: dict[uuid.UUID, list[Candidate]] = {}
    for one in candidates:
        for topic_id in one.topic_ids:
            if topic_id in partition_counts:
                subscribers.setdefault(topic_id, []).append(one)
    return dict(sorted(subscribers.items()))


def _kept(
    one: Candidate, partition_counts: PartitionCounts, taken: set[TopicIdPartition]
) -> list[TopicIdPartition]:
    """The partitions of the last assignment that the member may keep."""
    return [
        kept
        for topic_id in sorted(one.earlier)
        if topic_id in one.topic_ids
        for partition in sorted(one.earlier[topic_id])
        if partition < partition_counts.get(topic_id, 0)
        and (kept := TopicIdPartition(topic_id, partition)) not in taken
    ]


def _assign_evenly(
    candidates: Sequence[Candidate], partition_counts: PartitionCounts
) -> dict[str, list[TopicIdPartition]]:
    """All subscribe to the same topics: some get one more than the others, first of all those that had more."""
    topic_ids = sorted(candidates[0].topic_ids & partition_counts.keys())
    least, longer = divmod(sum(partition_counts[topic_id] for topic_id in topic_ids), len(candidates))
    taken: set[TopicIdPartition] = set()
    assigned: dict[str, list[TopicIdPartition]] = {}
    for one in candidates:
        kept = _kept(one, partition_counts, taken)
        if len(kept) > least:
            is_longer = longer > 0
            longer -= is_longer
            kept = kept[: least + is_longer]
        taken.update(kept)
        assigned[one.member_id] = kept
    free = [
        partition
        for topic_id in topic_ids
        for partition in _partitions_of(topic_id, partition_counts)
        if partition not in taken
    ]
    _distribute(free, assigned, least)
    return assigned


def _distribute(
    free: Sequence[TopicIdPartition], assigned: Mapping[str, list[TopicIdPartition]], least: int
) -> None:
    """One by one to the members that have too few, in turns, so that each gets partitions of every topic."""
    wanting = deque(given for given in assigned.values() if len(given) < least)
    satisfied = deque(given for given in assigned.values() if len(given) == least)
    for partition in free:
        if wanting:
            given = wanting.popleft()
            given.append(partition)
            (wanting if len(given) < least else satisfied).append(given)
        else:
            satisfied.popleft().append(partition)


def _assign_by_load(
    candidates: Sequence[Candidate], partition_counts: PartitionCounts
) -> dict[str, list[TopicIdPartition]]:
    """Subscriptions differ: a free partition goes to the member with the fewest, then some move while that helps."""
    owners: dict[TopicIdPartition, str] = {}
    loads: dict[str, int] = {}
    taken: set[TopicIdPartition] = set()
    for one in candidates:
        kept = _kept(one, partition_counts, taken)
        taken.update(kept)
        owners.update(dict.fromkeys(kept, one.member_id))
        loads[one.member_id] = len(kept)
    subscribers = {
        topic_id: [one.member_id for one in wanting]
        for topic_id, wanting in _by_topic(candidates, partition_counts).items()
    }
    # Topics with few subscribers come first, because there is less choice for them.
    for topic_id in sorted(subscribers, key=lambda topic_id: len(subscribers[topic_id])):
        lightest = _Lightest(subscribers[topic_id], loads)
        for partition in _partitions_of(topic_id, partition_counts):
            if partition not in owners:
                _assign(partition, lightest.first(), owners, loads)
    moves = 1
    while moves:  # every move makes the loads more equal, so that this ends
        moves = sum(
            _even_out(_partitions_of(topic_id, partition_counts), members, owners, loads)
            for topic_id, members in subscribers.items()
        )
    assigned: dict[str, list[TopicIdPartition]] = {one.member_id: [] for one in candidates}
    for partition, member_id in owners.items():
        assigned[member_id].append(partition)
    return assigned


class _Lightest:
    """The member of a topic with the smallest load, while loads change."""

    def __init__(self, member_ids: Sequence[str], loads: Mapping[str, int]) -> None:
        self._loads = loads
        self._queue = [(loads[member_id], index, member_id) for index, member_id in enumerate(member_ids)]
        heapq.heapify(self._queue)

    def first(self) -> str:
        while True:
            load, index, member_id = self._queue[0]
            if load == self._loads[member_id]:
                return member_id
            heapq.heapreplace(self._queue, (self._loads[member_id], index, member_id))


def _assign(
    partition: TopicIdPartition, member_id: str, owners: dict[TopicIdPartition, str], loads: dict[str, int]
) -> None:
    before = owners.get(partition)
    if before is not None:
        loads[before] -= 1
    owners[partition] = member_id
    loads[member_id] += 1


def _even_out(
    partitions: Sequence[TopicIdPartition],
    member_ids: Sequence[str],
    owners: dict[TopicIdPartition, str],
    loads: dict[str, int],
) -> int:
    """Move partitions of one topic from members with the most to those with the fewest; how many."""
    lightest = _Lightest(member_ids, loads)
    moves = 0
    for partition in sorted(partitions, key=lambda partition: -loads[owners[partition]]):
        if loads[owners[partition]] - loads[lightest.first()] >= 2:
            _assign(partition, lightest.first(), owners, loads)
            moves += 1
    return moves


def _partitions_of(topic_id: uuid.UUID, partition_counts: PartitionCounts) -> list[TopicIdPartition]:
    return [TopicIdPartition(topic_id, partition) for partition in range(partition_counts[topic_id])]


UNIFORM: Final = "uniform"
RANGE: Final = "range"
ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: uniform, RANGE: range_}
"""The first is the default, if no member names an assignor."""
