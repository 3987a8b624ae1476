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

from headrace.broker.archiver import Archiver
from headrace.broker.data_folder import DataFolder
from headrace.broker.flusher import Flusher
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.partition import Partition
from headrace.broker.runtime import Runtime
from headrace.broker.settings import BrokerSettings
from headrace.broker.shares.coordinator import ShareCoordinator
from headrace.broker.topics import Topics
from headrace.broker.traffic import Traffic
from headrace.broker.transactions.coordinator import TransactionCoordinator

logger = logging.getLogger(__name__)


class Housekeeping:
    def __init__(
        self,
        settings: BrokerSettings,
        *,
        runtime: Runtime,
        folder: DataFolder,
        topics: Topics,
        flusher: Flusher,
        archiver: Archiver,
        traffic: Traffic,
        groups: GroupCoordinator,
        shares: ShareCoordinator,
        transactions: TransactionCoordinator,
    ) -> None:
        self._settings = settings
        self._runtime = runtime
        self._clock = runtime.clock
        self._folder = folder
        self._topics = topics
        self._flusher = flusher
        self._archiver = archiver
        self._traffic = traffic
        self._groups = groups
        self._shares = shares
        self._transactions = transactions
        self.expired_segments = 0
        self.compactions = 0
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        chores: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.apply_retention, self._settings.housekeeping_interval_ms),
            (self.checkpoint, self._settings.checkpoint_interval_ms),
            (self.close_idle_connections, self._settings.idle_connection_ms_max // 4),
            (self.close_stuck_connections, self._settings.stuck_connection_ms_max // 4),
            (self.compact, self._settings.compaction_interval_ms),
            (self._archiver.tend, self._settings.archive_interval_ms),
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
            self._runtime.failures.report("housekeeping failed", error, partition=str(partition or ""))

    async def apply_retention(self) -> None:
        """Delete segments by time and size, and expire idle producers, offsets and transactional ids."""
        now_ms = self._clock.now_ms()
        before = self.expired_segments
        for partition in list(self._topics.partitions()):
            with self._going_on(partition):
                self._expire(partition, now_ms)
            await asyncio.sleep(0)  # so that a broker with many partitions answers requests in between
        if self.expired_segments > before:
            with self._going_on():
                self._topics.checkpoint_starts()
        self._folder.take_reserve()
        with self._going_on():
            self._groups.expire(now_ms)
        with self._going_on():
            self._shares.expire()
        with self._going_on():
            self._transactions.expire(now_ms)

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
            with self._going_on(partition):
                await self._flush(partition)
        self._topics.checkpoint()

    async def _flush(self, partition: Partition) -> None:
        log = partition.log
        if log.durable_offset < log.end_offset and log.read_only_reason is None:
            await self._flusher.flushed(partition)

    async def close_idle_connections(self) -> None:
        closed = self._traffic.close_idle(self._clock.monotonic_s())
        if closed:
            logger.info("idle connections closed", extra={"connections": closed})

    async def close_stuck_connections(self) -> None:
        closed = self._traffic.close_stuck(self._clock.monotonic_s())
        if closed:
            logger.warning(
                "connections closed: their clients do not receive their answers",
                extra={"connections": closed},
            )

    async def compact(self) -> None:
        """Compact the partitions that have enough new records; one at a time, in a thread."""
        for partition in list(self._topics.partitions()):
            with self._going_on(partition):
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
        compacted = await self._runtime.in_thread(run)
        partition.log.compaction.finish(compacted)
        self.compactions += 1
