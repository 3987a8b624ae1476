"""Periodic work of a broker: retention, expiry, checkpoints, idle connections, compaction, the archive.

Each chore runs in a loop of its own. A failure is reported; the chore continues with the next partition, and runs again
after its interval.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial

from headrace.broker.data_folder import DataFolder
from headrace.broker.partition import Partition
from headrace.broker.parts import Parts
from headrace.broker.runtime import Tasks

logger = logging.getLogger(__name__)


class Housekeeping:
    def __init__(self, parts: Parts, folder: DataFolder) -> None:
        self._parts = parts
        self._settings = parts.settings
        self._clock = parts.runtime.clock
        self._folder = folder
        self._topics = parts.topics
        self.expired_segments = 0
        self.compactions = 0
        self._tasks = Tasks(parts.runtime.loop)

    def start(self) -> None:
        connection_ms_max = min(self._settings.idle_connection_ms_max, self._settings.stuck_connection_ms_max)
        chores: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.apply_retention, self._settings.housekeeping_interval_ms),
            (self.checkpoint, self._settings.checkpoint_interval_ms),
            (self.close_connections, connection_ms_max // 4),
            (self.compact, self._settings.compaction_interval_ms),
            (self._parts.archiver.tend, self._settings.archive_interval_ms),
        ]
        for chore, interval_ms in chores:
            self._tasks.start(self._repeat(chore, interval_ms))

    async def stop(self) -> None:
        self._tasks.cancel()
        await self._tasks.idle()

    async def _repeat(self, chore: Callable[[], Awaitable[None]], interval_ms: int) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            with self._reporting_failures():
                await chore()

    @contextmanager
    def _reporting_failures(self, partition: Partition | None = None) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._parts.runtime.failures.report("housekeeping failed", error, partition=str(partition or ""))

    async def apply_retention(self) -> None:
        """Delete segments by time and size, and expire idle producers, offsets and transactional ids."""
        now_ms = self._clock.now_ms()
        before = self.expired_segments
        for partition in list(self._topics.partitions()):
            with self._reporting_failures(partition):
                self._expire(partition, now_ms)
            await asyncio.sleep(0)  # so that a broker with many partitions responds to requests in between
        if self.expired_segments > before:
            with self._reporting_failures():
                self._topics.checkpoint_starts()
        self._folder.take_reserve()
        with self._reporting_failures():
            self._parts.groups.expire(now_ms)
        with self._reporting_failures():
            self._parts.shares.expire()
        with self._reporting_failures():
            self._parts.transactions.expire(now_ms)

    def _expire(self, partition: Partition, now_ms: int) -> None:
        expired = partition.log.retention.apply(now_ms)
        self.expired_segments += len(expired)
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
        """Flush every partition, and write the recovery points."""
        for partition in list(self._topics.partitions()):
            with self._reporting_failures(partition):
                await self._flush(partition)
        self._topics.checkpoint()

    async def _flush(self, partition: Partition) -> None:
        log = partition.log
        if log.durable_offset < log.end_offset and log.read_only_reason is None:
            await self._parts.flusher.flushed(partition)

    async def close_connections(self) -> None:
        """Close connections that are idle, and those whose clients do not receive their responses."""
        now_s = self._clock.monotonic_s()
        idle, stuck = self._parts.traffic.close_idle(now_s), self._parts.traffic.close_stuck(now_s)
        if idle:
            logger.info("idle connections closed", extra={"connections": idle})
        if stuck:
            logger.warning(
                "connections closed: their clients do not receive their responses",
                extra={"connections": stuck},
            )

    async def compact(self) -> None:
        """Compact the partitions that have enough new records; one at a time, in a thread."""
        for partition in list(self._topics.partitions()):
            with self._reporting_failures(partition):
                await self._compact(partition)

    async def _compact(self, partition: Partition) -> None:
        if not partition.log.config.is_compacted:
            return
        # Only durable records are compacted, because the compacted copy is durable and replaces them.
        await self._flush(partition)
        compaction = partition.log.compaction.plan(self._clock.now_ms())
        if compaction is None:
            return
        run = partial(compaction.run, offset_map_entries_max=self._settings.compaction_map_entries_max)
        compacted = await self._parts.runtime.in_thread(run)
        partition.log.compaction.finish(compacted)
        self.compactions += 1
