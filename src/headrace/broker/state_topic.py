"""An internal topic that a coordinator keeps its state in: it is created, loaded, appended to and made durable here.

What the records mean is the coordinator's: it encodes them, and applies those that are read to its state.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar

from msgspec import Struct

from headrace.broker.failures import log_failure
from headrace.broker.flusher import Flusher
from headrace.broker.partition import Partition, Pending
from headrace.broker.retries import until_done
from headrace.broker.runtime import Runtime
from headrace.broker.stored_batches import batches_in
from headrace.broker.topics import Topics
from headrace.errors import HeadraceError
from headrace.log.partition_log import PartitionLog
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
    def __init__(
        self,
        name: str,
        *,
        runtime: Runtime,
        topics: Topics,
        flusher: Flusher,
        decompressed_bytes_max: int,
    ) -> None:
        self.name = name
        self._runtime = runtime
        self._topics = topics
        self._flusher = flusher
        self._decompressed_bytes_max = decompressed_bytes_max

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
        bytes_max, failures = self._decompressed_bytes_max, 0

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
                gives_up_on=HeadraceError,
            )
        except HeadraceError as damage:
            failed(damage)
            return None

    # Appending

    def append(
        self,
        entries: Iterable[KeyValue],
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
    ) -> Pending:
        """Append records in their order, before anything else can happen; in a transaction if a producer is given.

        Raises HeadraceError or OSError. Then the first of the records may be in the log, up to its end offset.
        """
        partition, now_ms = self.partition, self._runtime.clock.now_ms()
        base_offset = partition.log.end_offset
        for chunk in _chunks(entries):
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
        """Done when the records are as durable as the settings ask; fails with StorageFailed."""
        return self._flusher.durable(pending)

    def flush_soon(self, pending: Pending) -> None:
        """Make records durable that nobody waits for."""
        self._flusher.flush_soon(pending)

    async def delete_before(self, offset: int) -> None:
        """Delete old records. Those that stay are flushed first, so that a power cut does not remove them as well."""
        partition = self.partition
        await self._flusher.flushed(partition)
        partition.log.retention.delete_records_before(offset)


def read_state(log: PartitionLog, state: StateT, decompressed_bytes_max: int) -> StateT:
    """Apply all records of a log, in a thread that may wait for the disk; raises CorruptBatch if it is damaged."""
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
