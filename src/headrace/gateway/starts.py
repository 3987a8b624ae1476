"""Where a read or a stream starts: at a position, an offset, a time, or one end of the topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.clock import Clock
from headrace.gateway.errors import BadRequest
from headrace.gateway.event_ids import EventId
from headrace.gateway.log_reader import Offsets
from headrace.gateway.topics import Topics
from headrace.kafka.cluster import Partition
from headrace.times import parse_time_ms

EARLIEST, LATEST = "earliest", "latest"
TIME_MS_MAX = 2**62
"""Brokers have the time as 64 bits."""


class Starts:
    def __init__(self, topics: Topics, clock: Clock, *, resume_overlap_ms: int) -> None:
        self._topics = topics
        self._clock = clock
        self._overlap_ms = resume_overlap_ms

    async def at(self, names: Sequence[str], start: str) -> Offsets:
        """`earliest`, `latest`, or a time as people write it."""
        partitions = await self._partitions(names)
        cluster = self._topics.cluster
        if start == EARLIEST:
            return _by_topic(await self._topics.run(lambda: cluster.earliest(partitions)))
        if start == LATEST:
            return _by_topic(await self._topics.run(lambda: cluster.latest(partitions)))
        return await self.at_time(names, self.time_ms(start))

    def time_ms(self, text: str) -> int:
        time_ms = parse_time_ms(text, self._clock.now_ms())
        if not 0 <= time_ms <= TIME_MS_MAX:
            raise BadRequest(
                f"the time {text[:50]} is out of range",
                hint="write 2026-11-15T10:30:00Z or milliseconds since 1970",
            )
        return time_ms

    async def at_time(self, names: Sequence[str], time_ms: int) -> Offsets:
        """The first record of each partition at or after the time; its end if there is none."""
        partitions = await self._partitions(names)
        return _by_topic(await self._topics.run(lambda: self._topics.cluster.at_time(partitions, time_ms)))

    async def before(self, names: Sequence[str], id: EventId) -> Offsets:
        """By the time of an id, whose offsets are those of another cluster or topic."""
        return await self.at_time(names, max(0, id.time_ms - self._overlap_ms))

    async def resumed(self, names: Sequence[str], id: EventId) -> Offsets:
        """After an event: exactly, for the topics that its id has on this cluster; by its time for others."""
        if id.cluster != await self._topics.cluster_id():
            return await self.before(names, id)
        known = [each for each in names if await self._has_partitions(each, id)]
        others = [each for each in names if each not in known]
        found = await self.at_position(known, id.offsets)
        return found | (await self.before(others, id) if others else {})

    async def _has_partitions(self, topic: str, id: EventId) -> bool:
        """A topic that was created again may have fewer."""
        return topic in id.offsets and max(id.offsets[topic], default=-1) < await self._topics.partitions(
            topic
        )

    async def at_position(self, names: Sequence[str], offsets: Mapping[str, Mapping[int, int]]) -> Offsets:
        """A partition that the position does not have is new since, and is read from its first record on."""
        found: Offsets = {}
        for name in names:
            count = await self._topics.partitions(name)
            given = offsets.get(name, {})
            for number in given:
                await self._topics.check_partition(name, number)
            found[name] = {number: given.get(number, 0) for number in range(count)}
        return found

    async def _partitions(self, names: Sequence[str]) -> list[Partition]:
        return [
            Partition(name, number) for name in names for number in range(await self._topics.partitions(name))
        ]


def _by_topic(offsets: Mapping[Partition, int]) -> Offsets:
    found: Offsets = {}
    for partition, offset in offsets.items():
        found.setdefault(partition.topic, {})[partition.number] = offset
    return found
