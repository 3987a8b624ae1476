"""What a broker does by itself: retention, expiry, checkpoints, idle connections, compaction.

Each chore runs in a loop of its own, and each partition has its turn whatever became of the one before. A failure of
any kind is logged and counted, and the chore goes on at its next turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

from headrace.broker.data_folder import DataFolder
from headrace.broker.partition import Partition
from headrace.broker.services import Services

logger = logging.getLogger(__name__)


class Housekeeping:
    def __init__(self, services: Services, folder: DataFolder) -> None:
        self._services = services
        self._folder = folder
        self._settings = services.settings
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        chores: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.apply_retention, self._settings.housekeeping_interval_ms),
            (self.checkpoint, self._settings.checkpoint_interval_ms),
            (self.close_idle_connections, self._settings.idle_connection_ms_max // 4),
            (self.close_stuck_connections, self._settings.stuck_connection_ms_max // 4),
            (self.compact, self._settings.compaction_interval_ms),
            (self._services.archiver.tend, self._settings.archive_interval_ms),
        ]
        self._tasks = [asyncio.create_task(self._repeat(chore, interval)) for chore, interval in chores]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, chore: Callable[[], Awaitable[None]], interval_ms: int) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            with self._going_on():
                await chore()

    @contextmanager
    def _going_on(self, partition: Partition | None = None) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._services.background_failed("housekeeping failed", error, partition=str(partition or ""))

    async def apply_retention(self) -> None:
        """Remove what is old or too much, and forget idle producers and offsets."""
        services = self._services
        now_ms = services.clock.now_ms()
        before = services.counters.expired_segments
        for partition in list(services.topics.partitions()):
            with self._going_on(partition):
                self._expire(partition, now_ms)
            await asyncio.sleep(0)  # a broker of many partitions answers requests in between
        if services.counters.expired_segments > before:
            with self._going_on():
                services.topics.checkpoint_starts()
        self._folder.take_reserve()
        with self._going_on():
            services.groups.expire(now_ms)
        with self._going_on():
            services.shares.expire()
        with self._going_on():
            services.transactions.expire(now_ms)

    def _expire(self, partition: Partition, now_ms: int) -> None:
        expired = partition.log.apply_retention(now_ms)
        self._services.counters.expired_segments += len(expired)
        if expired:
            logger.info(
                "segments removed by retention",
                extra={
                    "partition": str(partition),
                    "segments": len(expired),
                    "log_start_offset": partition.log.start_offset,
                },
            )

    async def checkpoint(self) -> None:
        """Bring what lies in the page cache to the disk, and write down how far that is."""
        for partition in list(self._services.topics.partitions()):
            with self._going_on(partition):
                await self._flush(partition)
        self._services.topics.checkpoint()

    async def _flush(self, partition: Partition) -> None:
        log = partition.log
        if log.durable_offset < log.end_offset and log.read_only_reason is None:
            await self._services.flusher.flushed(partition)

    async def close_idle_connections(self) -> None:
        closed = self._services.traffic.close_idle(self._services.clock.monotonic_s())
        if closed:
            logger.info("idle connections closed", extra={"connections": closed})

    async def close_stuck_connections(self) -> None:
        closed = self._services.traffic.close_stuck(self._services.clock.monotonic_s())
        if closed:
            logger.warning("clients that take no answers were hung up on", extra={"connections": closed})

    async def compact(self) -> None:
        """Clean the compacted partitions that have gathered enough; one at a time, in a thread."""
        for partition in list(self._services.topics.partitions()):
            with self._going_on(partition):
                await self._compact(partition)

    async def _compact(self, partition: Partition) -> None:
        if not partition.log.config.is_compacted:
            return
        services = self._services
        # Only what is on disk is cleaned: the cleaned copy is, and takes its place.
        await self._flush(partition)
        compaction = partition.log.compaction_plan(services.clock.now_ms())
        if compaction is None:
            return
        run = partial(compaction.run, offset_map_entries_max=self._settings.compaction_map_entries_max)
        compacted = await services.loop.run_in_executor(services.disk_threads, run)
        partition.log.finish_compaction(compacted)
        services.counters.compactions += 1
