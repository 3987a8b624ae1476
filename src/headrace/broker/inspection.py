"""Batches that must be decompressed before they may be stored: keys on compacted topics, another codec.

Its duration depends on what the client sends. So it happens in threads, one batch of a client at a time. The batches
of a partition are appended in the order in which they were received, whichever was inspected first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headrace.broker.client import Client
from headrace.broker.partition import Partition
from headrace.broker.runtime import Runtime, Tasks
from headrace.log.batch_check import inspected_batch
from headrace.log.config import LogConfig
from headrace.records.batch import Buffer

AppendedT = TypeVar("AppendedT")


class Inspection:
    def __init__(self, runtime: Runtime, count_bytes: Callable[[int], None]) -> None:
        self._loop = runtime.loop
        self._count_bytes = count_bytes
        self._clock = runtime.clock
        self._threads = ThreadPoolExecutor(runtime.settings.inspection_threads, thread_name_prefix="inspect")
        self._tasks = Tasks(runtime.loop)
        # The last batch that waits to be appended to a partition.
        self._last: dict[Partition, asyncio.Task[object]] = {}

    def is_needed(self, partition: Partition, batch: Buffer) -> bool:
        """Whether the batch can't be appended immediately: it needs inspection, or earlier ones wait."""
        return partition.log.must_inspect(batch) or partition in self._last

    def append(
        self, partition: Partition, batch: Buffer, client: Client, append: Callable[[Buffer], AppendedT]
    ) -> asyncio.Task[AppendedT]:
        """Call `append` with the inspected batch when its turn has come; fails with what the inspection raised."""
        size_bytes = len(batch)
        # A copy, because the connection uses its buffer again.
        appending = self._append(partition, bytes(batch), client, append, after=self._last.get(partition))
        task = self._tasks.start(appending)
        self._last[partition] = task
        self._count_bytes(size_bytes)
        task.add_done_callback(lambda done: self._forget(partition, done, size_bytes))
        return task

    async def _append(
        self,
        partition: Partition,
        batch: bytes,
        client: Client,
        append: Callable[[Buffer], AppendedT],
        *,
        after: asyncio.Task[object] | None,
    ) -> AppendedT:
        while True:
            config = partition.log.config
            inspecting: Awaitable[Buffer] = self._inspect(batch, config, client)
            if after is not None and not after.done():
                inspecting = asyncio.ensure_future(inspecting)
                await asyncio.wait([after])
            inspected = await inspecting
            if config is partition.log.config:  # otherwise it was changed in the meantime
                return append(inspected)

    async def _inspect(self, batch: bytes, config: LogConfig, client: Client) -> Buffer:
        async with client.inspects:
            return await self._loop.run_in_executor(
                self._threads, inspected_batch, batch, config, self._clock.now_ms()
            )

    def _forget(self, partition: Partition, done: asyncio.Task[object], size_bytes: int) -> None:
        self._count_bytes(-size_bytes)
        if self._last.get(partition) is done:
            del self._last[partition]

    def close(self) -> None:
        """Append nothing more; clients send again what was not acknowledged."""
        self._tasks.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)
