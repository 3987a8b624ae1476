"""Appends of the broker's own batches: records of state topics, markers, dead letters."""

from __future__ import annotations

import asyncio

from headrace.broker.flusher import Flusher
from headrace.broker.partition import Partition
from headrace.broker.runtime import Runtime
from headrace.broker.topics import Topics
from headrace.log.partition_log import Appended


class Appends:
    def __init__(self, runtime: Runtime, topics: Topics, flusher: Flusher) -> None:
        self._runtime = runtime
        self.clock = runtime.clock
        self.topics = topics
        self.flusher = flusher

    async def append(self, partition: Partition, batch: bytes, *, waits_for_disk: bool = True) -> Appended:
        """Append a batch, and return when it is as durable as the settings ask.

        Without `waits_for_disk` it is flushed too, but only the flusher logs a failure of that.
        """
        appended = partition.log.append(batch, now_ms=self.clock.now_ms(), from_client=False)
        if partition.reads_unsynced:
            partition.grown(len(batch))
        elif waits_for_disk:
            await self.flusher.flushed(partition)
        else:
            self.flusher.flushed(partition).add_done_callback(lambda flushed: flushed.exception())
        return appended

    def append_now(self, partition: Partition, batch: bytes) -> asyncio.Future[None]:
        """Append before anything else can happen; the future is done when the batch is durable."""
        partition.log.append(batch, now_ms=self.clock.now_ms(), from_client=False)
        if not partition.reads_unsynced:
            return self.flusher.flushed(partition)
        partition.grown(len(batch))
        return self._runtime.done()
