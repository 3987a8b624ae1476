"""One share group on one partition: its window, the log, and the fetches that wait for more."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from headrace.broker.configs.group_configs import ShareConfig
from headrace.broker.fetch_waiters import FetchWaiter
from headrace.broker.partition import Partition
from headrace.broker.shares.storage import ShareKey, StoredWindow
from headrace.broker.shares.window import Window
from headrace.records.batch import iterate_headers


class ShareCounters(Struct):
    """What happened since the start, for metrics."""

    delivered: int = 0
    accepted: int = 0
    released: int = 0
    rejected: int = 0
    expired: int = 0
    dead_letters: int = 0
    dead_letter_failures: int = 0


class Line:
    """Fetches that wait for records of a share group, in their order: new records wake only the first.

    It stands among those who wait for the partition to grow, as if it were one of them.
    """

    def __init__(self) -> None:
        self._waiting: dict[FetchWaiter, None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiter: FetchWaiter, /) -> None:
        self._waiting[waiter] = None

    def discard(self, waiter: FetchWaiter, /) -> None:
        self._waiting.pop(waiter, None)

    def wake_first(self) -> None:
        """A fetch that is woken wakes the next one if it leaves records."""
        for waiter in self._waiting:
            waiter.wake()
            return

    def wake_all(self) -> None:
        for waiter in tuple(self._waiting):
            waiter.wake()


class GrowthOf:
    """Wakes a line when its partition grows or is deleted."""

    __slots__ = ("_line",)

    def __init__(self, line: Line) -> None:
        self._line = line

    def add(self, added_bytes: int) -> None:
        self._line.wake_first()

    def wake(self) -> None:
        self._line.wake_all()


class SharePartition(Struct, eq=False):
    partition: Partition
    stored: StoredWindow
    is_stored: bool = False
    """Whether its start offset is durable: before that nothing is delivered."""
    next_event_ms: int | None = None
    waiters: Line = field(default_factory=Line)
    _growth: GrowthOf | None = None
    counters: ShareCounters = field(default_factory=ShareCounters)

    @property
    def key(self) -> ShareKey:
        return self.stored.key

    @property
    def window(self) -> Window:
        return self.stored.window

    @property
    def is_gone(self) -> bool:
        return self.stored.is_gone

    def end_offset(self, is_read_committed: bool) -> int:
        partition = self.partition
        return partition.last_stable_offset if is_read_committed else partition.high_watermark

    def aborted(self, from_offset: int, below_offset: int) -> Sequence[tuple[int, int]]:
        return self.partition.log.reader.aborted_transactions(from_offset, below_offset)

    @property
    def lag(self) -> int:
        """Records that are not done: available, locked, or waiting for redelivery."""
        end = self.partition.high_watermark
        return max(end - self.window.start_offset - self.window.done_records, 0)

    def oldest_timestamp_ms(self) -> int | None:
        """When the first record that is not done was written; None if there is none. Reads one batch."""
        start, end = self.window.start_offset, self.partition.high_watermark
        log = self.partition.log
        if max(start, log.start_offset) >= end:
            return None
        if start < log.segments.local_start_offset and log.archive.entries:
            # The archive may be slow, so this is the newest timestamp of the segment in its list.
            return next(
                (one.max_timestamp_ms for one in log.archive.entries if one.next_offset > start), None
            )
        data = log.reader.read(max(start, log.start_offset), bytes_max=1, end_offset=end, at_least_one=True)
        for _, header in iterate_headers(data):
            return header.max_timestamp_ms
        return None

    def watch(self) -> None:
        """Wake waiting fetches from now on when the partition grows."""
        self._growth = GrowthOf(self.waiters)
        self.partition.waiters.add(self._growth)

    def go(self) -> None:
        """The group or the topic was deleted: wake all fetches."""
        self.stored.is_gone = True
        if self._growth is not None:
            self.partition.waiters.discard(self._growth)
        self.waiters.wake_all()

    def has_more(self, now_ms: int, config: ShareConfig) -> bool:
        """Whether a fetch would get records now."""
        window = self.window
        if self.is_gone or not window.room(config.rules):
            return False
        end_offset = self.end_offset(config.is_read_committed)
        return any(run.first < end_offset for run in window.runs(now_ms, records_max=1, runs_max=1))
