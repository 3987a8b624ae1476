"""A partition as the broker sees it: a log, the fetches that wait for it to grow, and how far readers may look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.log.index import NO_TIMESTAMP
from headrace.log.partition_log import Appended, PartitionLog
from headrace.records.batch import Buffer


class Growth(Protocol):
    """What waits for a partition to grow."""

    def grown(self, added_bytes: int) -> None:
        """This many more bytes can be read."""

    def wake(self) -> None:
        """The topic was deleted."""


class Pending(Struct, frozen=True):
    """What was appended and has to become durable: `Flusher.durable` waits for it."""

    partition: Partition
    base_offset: int
    last_offset: int
    log_append_time_ms: int = NO_TIMESTAMP
    is_duplicate: bool = False
    """The batch was in the log already; the offsets are those of the first time."""

    @property
    def is_durable(self) -> bool:
        """Whether it is as durable as the settings require, so that readers may see it."""
        return self.last_offset < self.partition.high_watermark


class Partition:
    __slots__ = ("_reads_unflushed", "index", "is_deleted", "log", "topic_name", "waiters")

    def __init__(self, topic_name: str, index: int, log: PartitionLog, *, reads_unflushed: bool) -> None:
        self.topic_name = topic_name
        self.index = index
        self.log = log
        # With durability "os" a record may be read as soon as it is in the page cache.
        self._reads_unflushed = reads_unflushed
        self.waiters: set[Growth] = set()
        self.is_deleted = False

    @property
    def name(self) -> tuple[str, int]:
        return self.topic_name, self.index

    @property
    def high_watermark(self) -> int:
        """Readers see the offsets below: with durability "fsync" never a record that a power cut could remove."""
        segments = self.log.segments
        return segments.end_offset if self._reads_unflushed else segments.durable_offset

    @property
    def last_stable_offset(self) -> int:
        """Readers of committed data see the offsets below: no open transaction can change them."""
        return min(self.log.last_stable_offset, self.high_watermark)

    @property
    def has_archive(self) -> bool:
        """Whether the archive may have segments of it."""
        return self.log.config.is_archived or self.log.archive.has_list

    def append(
        self, batch: Buffer, *, now_ms: int, from_client: bool = True, is_inspected: bool = False
    ) -> Pending:
        """Append a batch to the log; raises what `PartitionLog.append` raises."""
        appended = self.log.append(batch, now_ms=now_ms, from_client=from_client, is_inspected=is_inspected)
        if self._reads_unflushed and not appended.duplicate:
            self.grown(len(batch))
        return self._pending(appended)

    def append_all(self, batches: Sequence[Buffer], *, now_ms: int) -> list[Pending | HeadraceError]:
        """What `append` returns or raises for each batch of clients, in turn, with fewer writes."""
        outcomes = self.log.append_all(batches, now_ms=now_ms)
        if self._reads_unflushed:
            added_bytes = sum(
                len(batch)
                for batch, outcome in zip(batches, outcomes, strict=True)
                if isinstance(outcome, Appended) and not outcome.duplicate
            )
            if added_bytes:
                self.grown(added_bytes)
        return [self._pending(outcome) if isinstance(outcome, Appended) else outcome for outcome in outcomes]

    def _pending(self, appended: Appended) -> Pending:
        return Pending(
            self,
            appended.base_offset,
            appended.last_offset,
            appended.log_append_time_ms,
            appended.duplicate,
        )

    def pending(self) -> Pending:
        """All that was appended up to now."""
        end_offset = self.log.end_offset
        return Pending(self, end_offset, end_offset - 1)

    def grown(self, added_bytes: int) -> None:
        """More can be read: wake the fetches that wait for it."""
        for waiter in tuple(self.waiters):
            waiter.grown(added_bytes)

    def deleted(self) -> None:
        """The topic was deleted: wake the fetches that wait for more."""
        self.is_deleted = True
        for waiter in tuple(self.waiters):
            waiter.wake()

    def __str__(self) -> str:
        return f"{self.topic_name}-{self.index}"
