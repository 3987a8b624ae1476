"""How far a view is behind its topics: records for each partition, and since when the oldest of them waits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_INVALID, Consumer, TopicPartition
from msgspec import Struct

from headrace.kafka.cluster import Partition, requesting
from headrace.kafka.position import Position
from headrace.views.catalog import ViewFolder
from headrace.views.jobs import ends_of

if TYPE_CHECKING:
    from headrace.kafka.cluster import Cluster

READ_S_MAX = 5.0
"""For the first unread record of each partition. Without it, the lag in time is unknown."""


class PartitionLag(Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    position: int
    """the next offset that the view reads"""
    end: int
    waiting_since_ms: int | None
    """the timestamp of the first unread record; None if there is none"""

    @property
    def records(self) -> int:
        return max(0, self.end - self.position)


def position_of(folder: ViewFolder, version: int) -> Position:
    """What readers of this version have, at least."""
    return Position.from_fence(ends_of(folder.name, version, folder.data_dir))


def lag_of(folder: ViewFolder, version: int, cluster: Cluster) -> list[PartitionLag]:
    position = position_of(folder, version)
    topics = folder.record().definition.topics or tuple(position.offsets)
    partitions = [each for found in cluster.require_topics(topics).values() for each in found]
    ends, starts = cluster.latest(partitions), cluster.earliest(partitions)
    reached = {
        each: max(starts[each], position.offsets.get(each.topic, {}).get(each.number, 0))
        for each in partitions
    }
    waiting = _first_times(
        cluster, {each: reached[each] for each in partitions if reached[each] < ends[each]}
    )
    return [
        PartitionLag(
            topic=each.topic,
            partition=each.number,
            position=reached[each],
            end=ends[each],
            waiting_since_ms=waiting.get(each),
        )
        for each in sorted(partitions)
    ]


def _first_times(cluster: Cluster, offsets: Mapping[Partition, int]) -> dict[Partition, int]:
    """The timestamp of the record at or after each offset."""
    found: dict[Partition, int] = {}
    if not offsets:
        return found
    consumer = Consumer(
        cluster.client_config(
            group_id="headrace-view-lag", enable_auto_commit=False, enable_partition_eof=True
        )
    )
    ended: set[Partition] = set()
    try:
        with requesting("reading the first unread records"):
            consumer.assign([TopicPartition(each.topic, each.number, at) for each, at in offsets.items()])
            deadline_s = time.monotonic() + READ_S_MAX
            while len(found.keys() | ended) < len(offsets) and time.monotonic() < deadline_s:
                for message in consumer.consume(100, timeout=0.5):
                    partition = Partition(str(message.topic()), int(message.partition() or 0))
                    if message.error() is not None:
                        ended.add(partition)
                    elif message.timestamp()[1] >= 0:
                        found.setdefault(partition, message.timestamp()[1])
                    if partition in found | dict.fromkeys(ended, 0):
                        _pause(consumer, [partition])
    finally:
        consumer.close()
    return found


def _pause(consumer: Consumer, partitions: Sequence[Partition]) -> None:
    consumer.pause([TopicPartition(each.topic, each.number, OFFSET_INVALID) for each in partitions])
