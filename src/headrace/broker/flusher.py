"""Group commit: many requests share one fsync of a partition.

While one fsync of a partition runs, the requests that come in wait together for the next one. Partitions are
independent of each other. A failed fsync is never tried again: the kernel may have dropped the pages it could not
write, and a second call would report success without them.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from headrace.broker.partition import Partition, Pending
from headrace.broker.runtime import Runtime
from headrace.log.errors import StorageFailed
from headrace.log.flush import Flush

logger = logging.getLogger(__name__)


class Flusher:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._loop = runtime.loop
        self._threads = ThreadPoolExecutor(runtime.settings.flush_threads, thread_name_prefix="flush")
        # Per partition, the futures that wait for the next fsync. A partition is a key while an fsync of it runs.
        self._next: dict[Partition, list[asyncio.Future[None]]] = {}
        self._closed = False
        self.flushes = 0

    def durable(self, pending: Pending) -> asyncio.Future[None]:
        """Done when what was appended is as durable as the settings require; fails with StorageFailed."""
        return self._runtime.done() if pending.is_durable else self.flushed(pending.partition)

    def flush_soon(self, pending: Pending) -> None:
        """Make it durable without a request that waits: readers see only durable records. A failed fsync is logged."""
        if not pending.is_durable:
            self.flushed(pending.partition).add_done_callback(
                lambda flushed: flushed.cancelled() or flushed.exception()
            )

    def flushed(self, partition: Partition) -> asyncio.Future[None]:
        """Done when everything appended up to now is on disk; fails with StorageFailed if the fsync fails."""
        done: asyncio.Future[None] = self._loop.create_future()
        waiting = self._next.get(partition)
        if self._closed:
            done.cancel()  # the connections are closed, and closing the logs flushes them
        elif waiting is not None:
            waiting.append(done)
        elif partition.log.read_only_reason is not None:
            # An fsync failed since the append, or the topic was deleted.
            _fail([done], StorageFailed(f"{partition} is read-only: {partition.log.read_only_reason}"))
        else:
            self._next[partition] = []
            self._begin(partition, [done])
        return done

    def _begin(self, partition: Partition, waiting: list[asyncio.Future[None]]) -> None:
        try:
            flush = partition.log.flusher.begin()
        except OSError as error:
            # No fsync has failed, so the next flush covers these records too.
            del self._next[partition]
            logger.error("flush not started: %s", error, extra={"partition": str(partition)})
            hint = "raise the limit of open files (ulimit -n); the records are stored when it can be flushed"
            _fail(waiting, StorageFailed(f"{partition} can't be flushed: {error}", hint=hint))
            return
        running = self._loop.run_in_executor(self._threads, flush.sync)
        running.add_done_callback(lambda finished: self._end(partition, flush, waiting, finished))

    def _end(
        self,
        partition: Partition,
        flush: Flush,
        waiting: list[asyncio.Future[None]],
        finished: asyncio.Future[None],
    ) -> None:
        error = finished.exception()
        queued = self._next.pop(partition)
        if error is not None:
            # Those that wait for the next fsync fail too: it would be a retry for the same pages.
            self._failed(partition, [*waiting, *queued], error)
            return
        self._succeeded(partition, flush, waiting)
        if not queued:
            return
        if self._closed:
            # The connections are closed, and closing the logs flushes them.
            for done in queued:
                done.cancel()
        elif partition.is_deleted:
            _fail(queued, StorageFailed(f"{partition} was deleted", hint="the topic does not exist any more"))
        else:
            self._next[partition] = []
            self._begin(partition, queued)

    def _succeeded(self, partition: Partition, flush: Flush, waiting: list[asyncio.Future[None]]) -> None:
        self.flushes += 1
        before = partition.log.durable_offset
        partition.log.flusher.finish(flush)
        if partition.log.durable_offset > before:
            partition.grown(flush.flushed_bytes)
        for done in waiting:
            if not done.done():
                done.set_result(None)

    def _failed(
        self, partition: Partition, waiting: list[asyncio.Future[None]], error: BaseException
    ) -> None:
        partition.log.flusher.fail(error)
        if not partition.is_deleted:
            logger.error(
                "fsync failed, partition is read-only", exc_info=error, extra={"partition": str(partition)}
            )
        hint = "the partition is read-only until the broker is started again on a healthy disk"
        _fail(waiting, StorageFailed(f"fsync of {partition} failed: {error}", hint=hint))

    def close(self) -> None:
        """Wait for the fsyncs that run, and start no other."""
        self._closed = True
        self._threads.shutdown(wait=True)


def _fail(waiting: list[asyncio.Future[None]], error: StorageFailed) -> None:
    for done in waiting:
        if not done.done():
            done.set_exception(error)
