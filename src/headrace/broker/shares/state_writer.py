"""Writes the states of share groups to their topic. Many changes share a batch, and many batches a flush.

A state counts as stored when the log has it, never before. A state that could not be written is retried until it
succeeds, and always together with what is written before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from headrace.broker.retries import Retries
from headrace.broker.runtime import Runtime
from headrace.broker.shares.storage import StoredWindow
from headrace.broker.shares.window import DeadRecords
from headrace.broker.state_topic import StateTopic
from headrace.errors import HeadraceError
from headrace.log.errors import StorageFailed

PRUNED_RECORDS_MIN = 20_000
"""Records of the topic before old ones are deleted: a start reads this many in a fraction of a second."""

Waiting = dict[StoredWindow, list[asyncio.Future[None]]]


class StateWriter:
    """All changes while a flush runs are written by the next one."""

    def __init__(
        self,
        runtime: Runtime,
        topic: StateTopic,
        *,
        on_dead: Callable[[StoredWindow, Sequence[DeadRecords]], None],
    ) -> None:
        self._runtime = runtime
        self._topic = topic
        self._on_dead = on_dead
        self._waiting: Waiting = {}
        self._retries: Retries[StoredWindow] = Retries(runtime.loop, self._retry)
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False

    def written(self, stored: StoredWindow) -> asyncio.Future[None]:
        """Done when all that happened to a window up to now is as durable as the settings require."""
        done: asyncio.Future[None] = self._runtime.loop.create_future()
        # A failure without a request that waits is logged and retried all the same.
        done.add_done_callback(lambda finished: finished.cancelled() or finished.exception())
        self._waiting.setdefault(stored, []).append(done)
        self._start()
        return done

    def close(self) -> None:
        self._retries.close()

    def _start(self) -> None:
        if self._task is None:
            self._task = self._runtime.loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                waiting: Waiting = {stored: [] for stored in self._retries.take()}
                waiting.update(self._waiting)
                self._waiting = {}
                try:
                    await self._write(waiting)
                except Exception as error:
                    self._failed(waiting, error)
                else:
                    self._is_failing = False
                    _finish(waiting, None)
        finally:
            self._task = None

    async def _write(self, waiting: Collection[StoredWindow]) -> None:
        # A group that has started in partition 0 has started in all partitions (`start_topic`). So partition 0 comes
        # last, and this holds after a crash between two batches, too.
        unwritten = [stored for stored in waiting if stored.is_unwritten]
        unwritten.sort(key=lambda stored: stored.key.partition, reverse=True)
        if unwritten:
            self._append(unwritten)
        await self._topic.durable(self._topic.partition.pending())
        for stored in waiting:
            dead, stored.dead = stored.dead, []
            if dead:
                self._on_dead(stored, dead)

    def _append(self, windows: Sequence[StoredWindow]) -> None:
        now_ms = self._runtime.clock.now_ms()
        log = self._topic.partition.log
        base_offset = log.end_offset
        try:
            self._topic.append([stored.entry(now_ms) for stored in windows])
        finally:  # after a failure the log may have the first of them
            for offset, stored in zip(range(base_offset, log.end_offset), windows, strict=False):
                stored.appended(offset)

    def _failed(self, waiting: Waiting, error: Exception) -> None:
        is_foreseen = isinstance(error, HeadraceError | OSError)
        if not self._is_failing:
            self._is_failing = True
            self._runtime.failures.report("states of share groups can't be stored, and are retried", error)
        for stored in waiting:
            if stored.is_unwritten:
                stored.request_snapshot()
        self._retries.add(stored for stored in waiting if stored.is_pending)
        _finish(waiting, error if is_foreseen else StorageFailed(f"the state was not stored: {error!r}"))

    def _retry(self) -> None:
        for stored in self._retries.take():
            self._waiting.setdefault(stored, [])
        self._start()

    async def prune(self, windows: Collection[StoredWindow]) -> None:
        """Delete records that no window needs any more; windows that keep too many are written again first."""
        log = self._topic.log
        if log is None or log.end_offset - log.start_offset < PRUNED_RECORDS_MIN:
            return
        old_below = log.end_offset - PRUNED_RECORDS_MIN // 2
        oldest = min((stored.snapshot_offset for stored in windows), default=log.end_offset)
        for stored in windows:
            if stored.snapshot_offset < old_below:
                stored.request_snapshot()
                self.written(stored)
        if oldest > log.start_offset:
            await self._topic.delete_before(oldest)


def _finish(waiting: Mapping[StoredWindow, list[asyncio.Future[None]]], error: Exception | None) -> None:
    for futures in waiting.values():
        for future in futures:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
