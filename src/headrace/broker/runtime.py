"""What the parts of a broker run on: settings, files, the clock, the event loop, threads, the report of failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from headrace.broker.failures import Failures
from headrace.broker.settings import BrokerSettings
from headrace.clock import Clock
from headrace.log.filesystem import FileSystem

# Reads of data that is not in the page cache, look-ups by time, compaction: work that may wait for the disk.
DISK_THREADS = 4

ResultT = TypeVar("ResultT")


class Runtime:
    def __init__(
        self, settings: BrokerSettings, files: FileSystem, clock: Clock, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.settings = settings
        self.files = files
        self.clock = clock
        self.loop = loop
        self.failures = Failures(clock)
        self.disk_threads = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="disk")
        self._archive_threads = ThreadPoolExecutor(
            settings.archive_read_threads, thread_name_prefix="archive"
        )

    def in_thread(
        self, work: Callable[[], ResultT], *, reads_archive: bool = False
    ) -> asyncio.Future[ResultT]:
        """Run work that may wait. An archive that hangs does not delay reads of the local disk."""
        threads = self._archive_threads if reads_archive else self.disk_threads
        return self.loop.run_in_executor(threads, work)

    def done(self) -> asyncio.Future[None]:
        """A future that is already done."""
        future: asyncio.Future[None] = self.loop.create_future()
        future.set_result(None)
        return future

    def close(self) -> None:
        """Wait for the work that runs; cancel the rest."""
        self.disk_threads.shutdown(wait=True, cancel_futures=True)
        self._archive_threads.shutdown(wait=True, cancel_futures=True)


class Tasks:
    """Tasks that are not awaited: kept until they are done, because the event loop refers to tasks only weakly."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, ResultT]) -> asyncio.Task[ResultT]:
        task = self._loop.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def idle(self) -> None:
        """Wait until no task runs."""
        while self._running:
            await asyncio.wait(self._running)

    def cancel(self) -> None:
        for task in self._running:
            task.cancel()
