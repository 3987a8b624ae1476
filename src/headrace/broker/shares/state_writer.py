"""Writes the states of share groups to their topic. Many changes share a batch, and many batches a flush.

A state counts as stored when the log has it, never before. What could not be written is owed: it is tried again until
it succeeds, and always together with what is written before that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from headrace.broker.flusher import Flusher
from headrace.broker.groups.storage import KeyValue, chunks
from headrace.broker.partition import Partition
from headrace.broker.runtime import Runtime
from headrace.broker.shares.storage import STATE_TOPIC, ShareKey, StoredWindow, tombstone
from headrace.broker.shares.window import Burial
from headrace.broker.topics import Topics
from headrace.errors import HeadraceError
from headrace.log.errors import StorageFailed
from headrace.records.record import Record, encode_batch

RETRY_S = 1.0
"""How long after a failure what is owed is tried again: a full disk may have room by then."""

PRUNED_RECORDS_MIN = 20_000
"""Records of the topic before old ones are cut off: a start reads so many in a fraction of a second."""

Waiting = dict[StoredWindow, list[asyncio.Future[None]]]


class StateWriter:
    """What changes while a flush runs goes into the next one, together."""

    def __init__(
        self,
        runtime: Runtime,
        topics: Topics,
        flusher: Flusher,
        *,
        on_given_up: Callable[[StoredWindow, Sequence[Burial]], None],
    ) -> None:
        self._runtime = runtime
        self._loop = runtime.loop
        self._clock = runtime.clock
        self._topics = topics
        self._flusher = flusher
        self._on_given_up = on_given_up
        self._waiting: Waiting = {}
        self._owed: Waiting = {}
        self._task: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._is_failing = False
        self._is_closed = False
        self.writes = 0

    def written(self, stored: StoredWindow) -> asyncio.Future[None]:
        """Done when all that happened to a window up to now is as durable as the settings ask."""
        done: asyncio.Future[None] = self._loop.create_future()
        # Whoever does not wait need not hear of a failure: it is logged, and tried again.
        done.add_done_callback(lambda finished: finished.cancelled() or finished.exception())
        self._waiting.setdefault(stored, []).append(done)
        self._begin()
        return done

    async def idle(self) -> None:
        if self._task is not None:
            await self._task

    def close(self) -> None:
        self._is_closed = True
        if self._retry is not None:
            self._retry.cancel()

    def _begin(self) -> None:
        if self._task is None:
            self._task = self._loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._waiting:
                waiting, self._waiting, self._owed = {**self._owed, **self._waiting}, {}, {}
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
        # A group that has its place in partition 0 has it in all that the topic had then (`begin_topic`): so that one
        # comes last, and a crash between two batches leaves nothing that looks otherwise.
        unwritten = [stored for stored in waiting if stored.is_unwritten]
        unwritten.sort(key=lambda stored: stored.key.partition, reverse=True)
        now_ms = self._clock.now_ms()
        partition = self._partition()
        if unwritten:
            self._append(partition, [stored.entry(now_ms) for stored in unwritten], unwritten)
            self.writes += 1
        await self._durable(partition)
        for stored in waiting:
            given_up, stored.given_up = stored.given_up, []
            if given_up:
                self._on_given_up(stored, given_up)

    def _failed(self, waiting: Waiting, error: Exception) -> None:
        is_foreseen = isinstance(error, HeadraceError | OSError)
        if not self._is_failing:
            self._is_failing = True
            self._runtime.failures.report(
                "states of share groups can't be stored, and are tried again", error
            )
        for stored in waiting:
            if stored.is_unwritten:
                stored.ask_for_snapshot()
            if stored.is_owed:
                self._owed[stored] = []
        _finish(waiting, error if is_foreseen else StorageFailed(f"the state was not stored: {error!r}"))
        if self._owed and self._retry is None and not self._is_closed:
            self._retry = self._loop.call_later(RETRY_S, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        self._waiting = {**self._owed, **self._waiting}
        self._begin()

    def remove(self, keys: Iterable[ShareKey]) -> asyncio.Future[None]:
        """Write that windows are no more; done when that is durable. Raises if there is no room for all of them."""
        partition = self._partition()
        self._append(partition, [tombstone(key) for key in keys])
        return self._durable(partition)

    def _partition(self) -> Partition:
        [partition] = self._topics.internal(STATE_TOPIC).partitions
        return partition

    def _durable(self, partition: Partition) -> asyncio.Future[None]:
        """Done when all that was appended is as durable as the settings ask."""
        if not partition.reads_unsynced:
            return self._flusher.flushed(partition)
        partition.grown(0)
        return self._runtime.done()

    def _append(
        self, partition: Partition, entries: Sequence[KeyValue], windows: Sequence[StoredWindow] = ()
    ) -> None:
        """Append records, each of its window if those are given."""
        now_ms = self._clock.now_ms()
        written = 0
        for chunk in chunks(entries):
            records = [
                Record(offset=index, timestamp_ms=now_ms, key=entry.key, value=entry.value)
                for index, entry in enumerate(chunk)
            ]
            appended = partition.log.append(encode_batch(records), now_ms=now_ms, from_client=False)
            for index, stored in enumerate(windows[written : written + len(chunk)]):
                stored.appended(appended.base_offset + index)
            written += len(chunk)

    async def prune(self, windows: Collection[StoredWindow]) -> None:
        """Cut off what no window needs any more; windows that keep too much are written again first."""
        topic = self._topics.get(STATE_TOPIC)
        if topic is None:
            return
        [partition] = topic.partitions
        log = partition.log
        if log.end_offset - log.start_offset < PRUNED_RECORDS_MIN:
            return
        old_below = log.end_offset - PRUNED_RECORDS_MIN // 2
        oldest = min((stored.snapshot_offset for stored in windows), default=log.end_offset)
        for stored in windows:
            if stored.snapshot_offset < old_below:
                stored.ask_for_snapshot()
                self.written(stored)
        if oldest > log.start_offset:
            # Otherwise a power cut could lose the snapshots that stay.
            await self._flusher.flushed(partition)
            log.delete_records_before(oldest)


def _finish(waiting: Mapping[StoredWindow, list[asyncio.Future[None]]], error: Exception | None) -> None:
    for futures in waiting.values():
        for future in futures:
            if future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
