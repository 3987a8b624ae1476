"""Coordinators, and the internal topics with their state: created, loaded, appended to and made durable here.

The coordinator defines the records: it encodes them, and applies those that are read to its state.
"""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar

from msgspec import Struct

from headrace.broker.failures import log_failure
from headrace.broker.flusher import Flusher
from headrace.broker.partition import Partition, Pending
from headrace.broker.rejections import RequestRejected
from headrace.broker.retries import until_done
from headrace.broker.runtime import Runtime, Tasks
from headrace.broker.stored_batches import batches_in
from headrace.broker.topics import Topics
from headrace.errors import HeadraceError
from headrace.log.partition_log import PartitionLog
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.primitives import MalformedMessage
from headrace.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, BatchHeader
from headrace.records.record import Record, encode_batch, iterate_records

logger = logging.getLogger(__name__)

BATCH_BYTES_MAX = 262_144
"""Many small records (all offsets of a group) are split into batches well below the topic's limit."""


class KeyValue(Struct, frozen=True):
    key: bytes
    value: bytes | None
    """None deletes the key."""


class State(Protocol):
    """What the records of a topic add up to."""

    def apply(self, header: BatchHeader, record: Record) -> None:
        """Apply the next record, of a batch with this header. MalformedMessage and ValueError skip the record."""

    def complete(self) -> None:
        """All records were applied."""


StateT = TypeVar("StateT", bound=State)


class StateTopic:
    def __init__(self, name: str, *, runtime: Runtime, topics: Topics, flusher: Flusher) -> None:
        self.name = name
        self._runtime = runtime
        self._topics = topics
        self._flusher = flusher

    @property
    def partition(self) -> Partition:
        """The partition of every key: on one broker more would gain nothing. Creates the topic if it is missing."""
        return self._topics.internal(self.name).partitions[0]

    @property
    def log(self) -> PartitionLog | None:
        """None if the topic was not created yet."""
        topic = self._topics.get(self.name)
        return None if topic is None else topic.partitions[0].log

    # Loading

    async def load(self, new_state: Callable[[], StateT], *, on_failure: Callable[[], None]) -> StateT | None:
        """Read all records, and retry while the disk fails; None if the topic is damaged."""
        log = self.log
        if log is None:
            return new_state()
        bytes_max, failures = self._runtime.settings.decompressed_batch_bytes_max, 0

        def failed(failure: Exception) -> None:
            nonlocal failures
            failures += 1
            if failures == 1:
                log_failure(f"{self.name} can't be read, so that its coordinator is not available", failure)
            on_failure()

        try:
            return await until_done(
                lambda: self._runtime.in_thread(partial(read_state, log, new_state(), bytes_max)),
                on_failure=failed,
                fails_on=HeadraceError,
            )
        except HeadraceError as damage:
            failed(damage)
            return None

    # Appending

    def append(
        self,
        entries: Iterable[KeyValue],
        *,
        in_one_batch: bool = False,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Pending:
        """Append records in their order, before anything else can happen; in a transaction if a producer is given.

        Raises HeadraceError or OSError. Then the first of the records may be in the log, up to its end offset, unless
        they are `in_one_batch`, which is appended as a whole or not at all, and rejected if it is too large.
        """
        partition, now_ms = self.partition, self._runtime.clock.now_ms()
        base_offset = partition.log.end_offset
        for chunk in [[*entries]] if in_one_batch else _chunks(entries):
            records = [
                Record(offset=index, timestamp_ms=now_ms, key=entry.key, value=entry.value)
                for index, entry in enumerate(chunk)
            ]
            batch = encode_batch(
                records,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                is_transactional=producer_id != NO_PRODUCER_ID,
            )
            partition.append(batch, now_ms=now_ms, from_client=False)
        return Pending(partition, base_offset, partition.log.end_offset - 1)

    def durable(self, pending: Pending) -> asyncio.Future[None]:
        """Done when the records are as durable as the settings require; fails with StorageFailed."""
        return self._flusher.durable(pending)

    def flush_soon(self, pending: Pending) -> None:
        """Make records durable that no request waits for."""
        self._flusher.flush_soon(pending)

    async def delete_before(self, offset: int) -> None:
        """Delete old records. Those that stay are flushed first, so that a power cut does not remove them as well."""
        partition = self.partition
        await self._flusher.flushed(partition)
        partition.log.retention.delete_records_before(offset)


class Coordinator(abc.ABC):
    """A part whose state is in a topic. Until it is loaded, requests fail with COORDINATOR_LOAD_IN_PROGRESS."""

    def __init__(self, runtime: Runtime, topic: StateTopic) -> None:
        self._runtime = runtime
        self._clock = runtime.clock
        self._topic = topic
        self._tasks = Tasks(runtime.loop)
        self._loading: asyncio.Task[None] | None = None
        self._unavailable: ErrorCode | None = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    @property
    def unavailable(self) -> ErrorCode | None:
        """Why requests fail now; None if they are served."""
        return self._unavailable

    def require_available(self) -> None:
        """Raise RequestRejected if requests can't be served now."""
        if self._unavailable is not None:
            raise RequestRejected(self._unavailable)

    def load(self) -> None:
        """Start to load the state."""
        self._loading = self._tasks.start(self._load())

    @abc.abstractmethod
    async def _load(self) -> None:
        """Read the state topic, and become available."""

    def _not_loaded(self) -> None:
        self._unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE

    def close(self) -> None:
        self._unavailable = ErrorCode.NOT_COORDINATOR
        if self._loading is not None:
            self._loading.cancel()

    async def idle(self) -> None:
        """Wait until nothing is loaded, written or expired any more."""
        await self._tasks.idle()


def read_state(log: PartitionLog, state: StateT, decompressed_bytes_max: int) -> StateT:
    """Apply all records of a log, in a thread that may wait for the disk; raises InvalidBatch if it is damaged."""
    for header, batch in batches_in(log):
        for record in iterate_records(batch, bytes_max=decompressed_bytes_max):
            try:
                state.apply(header, record)
            except (MalformedMessage, ValueError) as error:
                logger.error(
                    "record of %s skipped: %s", log.directory, error, extra={"log_offset": record.offset}
                )
    state.complete()
    return state


def _chunks(entries: Iterable[KeyValue]) -> Iterator[Sequence[KeyValue]]:
    chunk: list[KeyValue] = []
    size_bytes = 0
    for entry in entries:
        entry_bytes = len(entry.key) + len(entry.value or b"")
        if chunk and size_bytes + entry_bytes > BATCH_BYTES_MAX:
            yield chunk
            chunk, size_bytes = [], 0
        chunk.append(entry)
        size_bytes += entry_bytes
    if chunk:
        yield chunk
