"""Group commit: many requests share one fsync of a partition.

While one fsync of a partition runs, the requests that come in wait together for the next one. Partitions are
independent of each other. A failed fsync is never tried again: the kernel may have dropped the pages it could not
write, and a second call would report success without them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from headrace.broker.partition import Partition, Pending
from headrace.broker.runtime import Runtime
from headrace.log.errors import StorageFailed
from headrace.log.flush import Flush

logger = logging.getLogger(__name__)

Done = Callable[[BaseException | None], None]
"""Called when an fsync has ended: without an error, with StorageFailed, or with CancelledError if the broker stops."""


class Flusher:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loop = runtime.loop
        self._threads = ThreadPoolExecutor(runtime.settings.flush_threads, thread_name_prefix="flush")
        # Per partition, what waits for the next fsync. A partition is a key while an fsync of it runs.
        self._next: dict[Partition, list[Done]] = {}
        self._closed = False
        self.flushes = 0

    def durable(self, pending: Pending) -> asyncio.Future[None]:
        """Done when what was appended is as durable as the settings require; fails with StorageFailed."""
        return self._runtime.done() if pending.is_durable else self.flushed(pending.partition)

    def when_durable(self, pending: Pending, done: Done) -> None:
        """Call `done` when what was appended is as durable as the settings require, immediately if it is."""
        if pending.is_durable:
            done(None)
        else:
            self.when_flushed(pending.partition, done)

    def flush_soon(self, pending: Pending) -> None:
        """Make it durable without a request that waits: readers see only durable records. A failed fsync is logged."""
        self.when_durable(pending, lambda error: None)

    def flushed(self, partition: Partition) -> asyncio.Future[None]:
        """Done when everything appended up to now is on disk; fails with StorageFailed if the fsync fails."""
        future: asyncio.Future[None] = self._loop.create_future()
        self.when_flushed(partition, partial(_complete, future))
        return future

    def when_flushed(self, partition: Partition, done: Done) -> None:
        """Call `done` when everything appended up to now is on disk, or could not be flushed."""
        waiting = self._next.get(partition)
        if self._closed:
            done(asyncio.CancelledError())  # the connections are closed, and closing the logs flushes them
        elif waiting is not None:
            waiting.append(done)
        elif partition.log.read_only_reason is not None:
            # An fsync failed since the append, or the topic was deleted.
            done(StorageFailed(f"{partition} is read-only: {partition.log.read_only_reason}"))
        else:
            self._next[partition] = []
            self._begin(partition, [done])

    def _begin(self, partition: Partition, waiting: list[Done]) -> None:
        try:
            flush = partition.log.flusher.begin()
        except OSError as error:
            # No fsync has failed, so the next flush covers these records too.
            del self._next[partition]
            logger.error("flush not started: %s", error, extra={"partition": str(partition)})
            hint = "raise the limit of open files (ulimit -n); the records are stored when it can be flushed"
            self._call(waiting, StorageFailed(f"{partition} can't be flushed: {error}", hint=hint))
            return
        self._threads.submit(self._sync, partition, flush, waiting)

    def _sync(self, partition: Partition, flush: Flush, waiting: list[Done]) -> None:
        """In a thread: the fsync. The event loop learns of its end by one call, without futures in between."""
        error: Exception | None = None
        try:
            flush.sync()
        except Exception as failure:
            error = failure
        self._loop.call_soon_threadsafe(self._end, partition, flush, waiting, error)

    def _end(self, partition: Partition, flush: Flush, waiting: list[Done], error: Exception | None) -> None:
        queued = self._next.pop(partition)
        if error is not None:
            # Those that wait for the next fsync fail too: it would be a retry for the same pages.
            self._failed(partition, [*waiting, *queued], error)
            return
        self._flushed(partition, flush)
        if queued:
            # Before the responses: the disk works while they are encoded.
            self._begin_next(partition, queued)
        self._call(waiting, None)

    def _begin_next(self, partition: Partition, queued: list[Done]) -> None:
        if self._closed:
            # The connections are closed, and closing the logs flushes them.
            self._call(queued, asyncio.CancelledError())
        elif partition.is_deleted:
            hint = "the topic does not exist any more"
            self._call(queued, StorageFailed(f"{partition} was deleted", hint=hint))
        else:
            self._next[partition] = []
            self._begin(partition, queued)

    def _flushed(self, partition: Partition, flush: Flush) -> None:
        self.flushes += 1
        before = partition.log.durable_offset
        partition.log.flusher.finish(flush)
        if partition.log.durable_offset > before:
            partition.grown(flush.flushed_bytes)

    def _failed(self, partition: Partition, waiting: list[Done], error: Exception) -> None:
        partition.log.flusher.fail(error)
        if not partition.is_deleted:
            logger.error(
                "fsync failed, partition is read-only", exc_info=error, extra={"partition": str(partition)}
            )
        hint = "the partition is read-only until the broker is started again on a healthy disk"
        self._call(waiting, StorageFailed(f"fsync of {partition} failed: {error}", hint=hint))

    def _call(self, waiting: Iterable[Done], error: BaseException | None) -> None:
        for done in waiting:
            try:
                done(error)
            except Exception as failure:  # of one request: the others wait for the same fsync
                self._runtime.failures.report("a request that waited for an fsync failed", failure)

    def close(self) -> None:
        """Wait for the fsyncs that run, and start no other."""
        self._closed = True
        self._threads.shutdown(wait=True)


def _complete(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return  # whoever waited for it was cancelled
    if error is None:
        future.set_result(None)
    elif isinstance(error, asyncio.CancelledError):
        future.cancel()
    else:
        future.set_exception(error)
