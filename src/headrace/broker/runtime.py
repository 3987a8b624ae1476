"""What the parts of a broker run on: the event loop, the clock, threads for reads, and the report of failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from headrace.broker.failures import Failures
from headrace.clock import Clock

# Reads of data that is not in the page cache, look-ups by time, compaction: work that may wait for the disk.
DISK_THREADS = 4

ResultT = TypeVar("ResultT")


class Runtime:
    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, *, archive_threads: int) -> None:
        self.loop = loop
        self.clock = clock
        self.failures = Failures(clock)
        self.disk_threads = ThreadPoolExecutor(DISK_THREADS, thread_name_prefix="disk")
        self._archive_threads = ThreadPoolExecutor(archive_threads, thread_name_prefix="archive")

    def in_thread(
        self, work: Callable[[], ResultT], *, reads_archive: bool = False
    ) -> asyncio.Future[ResultT]:
        """Run work that may wait. An archive that hangs does not delay reads of the local disk."""
        threads = self._archive_threads if reads_archive else self.disk_threads
        return self.loop.run_in_executor(threads, work)

    def done(self) -> asyncio.Future[None]:
        """A future that nobody has to wait for."""
        future: asyncio.Future[None] = self.loop.create_future()
        future.set_result(None)
        return future

    def close(self) -> None:
        """Wait for the work that runs; cancel the rest."""
        self.disk_threads.shutdown(wait=True, cancel_futures=True)
        self._archive_threads.shutdown(wait=True, cancel_futures=True)
