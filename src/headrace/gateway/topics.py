"""The topics of the cluster, remembered for a while: a request must not wait for another request to the broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from msgspec import Struct

from headrace.gateway.errors import UnknownPartition
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed, no_such_topic
from headrace.topic_names import check_topic_name

STALE_WAIT_S = 0.5
"""How long a request waits for the broker before it uses what was known before."""

THREADS_MAX = 8
"""That wait for admin requests at the same time."""

T = TypeVar("T")


class _Known(Struct, frozen=True):
    metadata: Any
    at_s: float


class Topics:
    def __init__(self, cluster: Cluster, *, metadata_ms: int) -> None:
        self.cluster = cluster
        self._known: _Known | None = None
        self._metadata_s = metadata_ms / 1000
        self._refreshing: asyncio.Task[None] | None = None
        self._threads = CapacityLimiter(THREADS_MAX)

    async def run(self, work: Callable[[], T]) -> T:
        """A request of the admin client, which blocks, in a thread."""
        return await to_thread.run_sync(work, limiter=self._threads)

    async def metadata(self) -> Any:
        """As confluent-kafka has it, at most `metadata_ms` old while the broker responds."""
        if self._known is None:
            await self.refresh()
        elif time.monotonic() - self._known.at_s > self._metadata_s:
            await asyncio.wait({self._begin_refresh()}, timeout=STALE_WAIT_S)
        assert self._known is not None
        return self._known.metadata

    async def refresh(self) -> None:
        """One request for all that wait. If it fails, what is known remains."""
        await asyncio.shield(self._begin_refresh())

    def _begin_refresh(self) -> asyncio.Task[None]:
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh())
        return self._refreshing

    async def _refresh(self) -> None:
        try:
            metadata = await self.run(self.cluster.metadata)
        except RequestFailed:
            if self._known is None:
                raise
            metadata = self._known.metadata
        finally:
            self._refreshing = None
        self._known = _Known(metadata, time.monotonic())

    async def cluster_id(self) -> str:
        return (await self.metadata()).cluster_id or ""

    async def partitions(self, topic: str) -> int:
        """How many; an error if there is no such topic."""
        return await self._partitions(topic, self._raise_unknown)

    async def partitions_to_write(self, topic: str) -> int:
        """The same; a broker that creates topics by use creates it."""
        return await self._partitions(topic, self._create_by_use)

    async def _partitions(self, topic: str, on_unknown: Callable[[str], Awaitable[None]]) -> int:
        metadata = await self.metadata()
        if topic not in metadata.topics:
            check_topic_name(topic)
            await self.refresh()
            metadata = await self.metadata()
        if topic not in metadata.topics:
            await on_unknown(topic)
            metadata = await self.metadata()
        if topic not in metadata.topics:
            raise no_such_topic(topic, metadata.topics)
        return len(metadata.topics[topic].partitions)

    async def _raise_unknown(self, topic: str) -> None:
        raise no_such_topic(topic, (await self.metadata()).topics)

    async def _create_by_use(self, topic: str) -> None:
        await self.run(lambda: self.cluster.create_by_use(topic))
        await self.refresh()

    async def check_partition(self, topic: str, partition: int) -> None:
        check_partition(topic, partition, await self.partitions(topic))


def check_partition(topic: str, partition: int, count: int) -> None:
    if not 0 <= partition < count:
        raise UnknownPartition(f"topic {topic} has no partition {partition}", hint=f"it has 0 to {count - 1}")
