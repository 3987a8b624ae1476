"""The feeds of all topics that streams follow: one for each topic, as long as a stream uses it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from headrace.errors import HeadraceError
from headrace.gateway.errors import Overloaded
from headrace.gateway.feed import Feed
from headrace.gateway.records import Record
from headrace.gateway.settings import GatewaySettings
from headrace.gateway.tail import Tail
from headrace.gateway.topics import Topics
from headrace.kafka.cluster import Partition

UNUSED_S_MAX = 30.0
"""A feed without streams remains so long: a client that repeats a waiting read finds it again."""


class Feeds:
    """Used in the event loop only, from `start` on; the thread of the tail calls back into it."""

    def __init__(self, topics: Topics, settings: GatewaySettings) -> None:
        self._topics = topics
        self._settings = settings
        self._feeds: dict[str, Feed] = {}
        self._users: dict[str, int] = defaultdict(int)
        self._failures: dict[Feed, HeadraceError] = {}
        self._opening: dict[str, asyncio.Task[Feed]] = {}
        self._unused: dict[str, asyncio.TimerHandle] = {}

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tail = Tail(self._topics.cluster, on_records=self._from_tail, on_failure=self._failed_in_tail)
        self._upkeep = asyncio.create_task(self._follow_new_partitions())

    @contextlib.asynccontextmanager
    async def feed(self, topic: str) -> AsyncIterator[Feed]:
        """Of a topic that exists. It has every record from its start on, also those before the context is entered."""
        self._users[topic] += 1
        try:
            yield await self._open(topic)
        finally:
            self._users[topic] -= 1
            if not self._users[topic]:
                del self._users[topic]
                self._remove_later(topic)

    def failure(self, feed: Feed) -> HeadraceError | None:
        """Why it has no more records; None while it has."""
        return self._failures.get(feed)

    async def close(self) -> None:
        self._upkeep.cancel()
        for timer in self._unused.values():
            timer.cancel()
        await asyncio.to_thread(self._tail.close)

    async def _open(self, topic: str) -> Feed:
        if timer := self._unused.pop(topic, None):
            timer.cancel()
        if topic in self._feeds:
            return self._feeds[topic]
        if topic not in self._opening:
            if len(self._feeds) + len(self._opening) >= self._settings.followed_topics_max:
                raise Overloaded(
                    "streams follow too many topics at a time",
                    hint="followed_topics_max in [gateway] is the bound",
                )
            self._opening[topic] = asyncio.create_task(self._create(topic))
        return await asyncio.shield(self._opening[topic])

    async def _create(self, topic: str) -> Feed:
        try:
            count = await self._topics.partitions(topic)
            ends = await self._topics.run(lambda: self._ends(topic, count))
            feed = Feed(
                topic,
                ends,
                records_max=self._settings.buffer_records_max,
                bytes_max=self._settings.buffer_bytes_max,
            )
            self._feeds[topic] = feed
            self._tail.add(topic, ends)
        finally:
            del self._opening[topic]
        if topic not in self._users:
            self._remove_later(topic)
        return feed

    def _ends(self, topic: str, count: int) -> dict[int, int]:
        found = self._topics.cluster.offsets(
            [Partition(topic, number) for number in range(count)],
            OffsetSpec.latest(),
            isolation=IsolationLevel.READ_COMMITTED,
        )
        return {each.number: offset for each, offset in found.items()}

    def _remove_later(self, topic: str) -> None:
        if topic in self._feeds and topic not in self._unused:
            self._unused[topic] = self._loop.call_later(UNUSED_S_MAX, self._remove, topic)

    def _remove(self, topic: str) -> None:
        self._unused.pop(topic, None)
        if topic not in self._users and (feed := self._feeds.pop(topic, None)):
            self._failures.pop(feed, None)
            self._tail.remove(topic)

    # From the thread of the tail

    def _from_tail(self, records: Sequence[Record], taken: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._take, records, taken)

    def _failed_in_tail(self, topic: str, error: HeadraceError) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._fail, topic, error)

    def _take(self, records: Sequence[Record], taken: Callable[[], None]) -> None:
        by_topic: dict[str, list[Record]] = defaultdict(list)
        for each in records:
            by_topic[each.topic].append(each)
        for topic, found in by_topic.items():
            if topic in self._feeds:
                self._feeds[topic].append(found)
        taken()

    def _fail(self, topic: str, error: HeadraceError) -> None:
        """Its streams end. The next one opens the topic anew."""
        feed = self._feeds.pop(topic, None)
        if feed is not None:
            self._tail.remove(topic)
            self._failures[feed] = error
            feed.wake()

    async def _follow_new_partitions(self) -> None:
        while True:
            await asyncio.sleep(self._settings.metadata_ms / 1000)
            for topic, feed in [*self._feeds.items()]:
                try:
                    count = await self._topics.partitions(topic)
                except HeadraceError as error:
                    if topic in (await self._topics.metadata()).topics:
                        continue
                    self._fail(topic, error)
                    continue
                added = {number: 0 for number in range(count) if number not in feed.at_end}
                if added and self._feeds.get(topic) is feed:
                    for number, offset in added.items():
                        feed.add_partition(number, offset)
                    self._tail.add(topic, added)
