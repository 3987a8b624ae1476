"""One share group on one partition, as the broker holds it: the window, the log below, and who waits for more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.broker.partition import Partition
from headrace.broker.shares.storage import ShareKey, StoredWindow
from headrace.broker.shares.window import Window
from headrace.records.batch import iterate_headers

if TYPE_CHECKING:
    from headrace.broker.fetch_waiters import FetchWaiter


@dataclass(slots=True)
class ShareCounters:
    """What happened since the start, for metrics."""

    delivered: int = 0
    accepted: int = 0
    released: int = 0
    rejected: int = 0
    expired: int = 0
    dead_letters: int = 0
    dead_letter_failures: int = 0


@dataclass(slots=True, eq=False)
class SharePartition:
    partition: Partition
    stored: StoredWindow
    is_stored: bool = False
    """Whether a crash would find it where it began: before that nothing is delivered."""
    next_event_ms: int | None = None
    is_gone: bool = False
    waiters: set[FetchWaiter] = field(default_factory=set)
    counters: ShareCounters = field(default_factory=ShareCounters)

    @property
    def key(self) -> ShareKey:
        return self.stored.key

    @property
    def window(self) -> Window:
        return self.stored.window

    def end_offset(self, is_read_committed: bool) -> int:
        partition = self.partition
        return partition.last_stable_offset if is_read_committed else partition.high_watermark

    def aborted(self, from_offset: int, below_offset: int) -> Sequence[tuple[int, int]]:
        return self.partition.log.aborted_transactions(from_offset, below_offset)

    @property
    def lag(self) -> int:
        """Records that are not done: to be delivered, locked, or waiting for another try."""
        end = self.partition.high_watermark
        return max(end - self.window.start_offset - self.window.done_records, 0)

    def oldest_timestamp_ms(self) -> int | None:
        """When the first record that is not done was written; None if there is none. Reads one batch."""
        start, end = self.window.start_offset, self.partition.high_watermark
        log = self.partition.log
        if max(start, log.start_offset) >= end:
            return None
        data = log.read(max(start, log.start_offset), bytes_max=1, end_offset=end, at_least_one=True)
        for _, header in iterate_headers(data):
            return header.max_timestamp_ms
        return None

    def wake(self) -> None:
        for waiter in tuple(self.waiters):
            waiter.wake()
