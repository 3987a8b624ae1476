"""One share group on one partition: its window, the log, the fetches that wait for more, and its metrics."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from headrace.broker.configs.group_configs import ShareConfig
from headrace.broker.fetch_waiters import FetchWaiter
from headrace.broker.partition import Partition
from headrace.broker.shares.states import RecordState
from headrace.broker.shares.storage import ShareKey, StoredWindow
from headrace.broker.shares.window import Window
from headrace.errors import HeadraceError
from headrace.records.batch import iterate_headers

SHARE_GAUGES = {
    "members": "Members of a share group.",
    "in_flight": "Records that are locked by members.",
    "waiting": "Records that are to be delivered, for the first time or again.",
    "dying": "Records whose dead letter is not written yet.",
    "window_pieces": "Ranges that the state of a group consists of.",
    "oldest_age_seconds": "Age of the oldest record that is not done.",
}

SHARE_COUNTERS = {
    "delivered": "Records handed to members.",
    "redelivered": "Records handed to members for another time.",
    "accepted": "Records accepted.",
    "released": "Records released by members.",
    "rejected": "Records rejected by members.",
    "expired": "Records whose lock expired.",
    "dead_letters": "Dead letters written.",
    "dead_letter_failures": "Times that dead letters could not be written.",
}


class FetchQueue:
    """Fetches that wait for records of a share group, in their order: new records wake only the first.

    The partition wakes it when it grows or is deleted, like one of its own fetches (`partition.Growth`).
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

    def grown(self, added_bytes: int) -> None:
        self.wake_first()

    def wake(self) -> None:
        """Wake all of them."""
        for waiter in tuple(self._waiting):
            waiter.wake()


class SharePartition(Struct, eq=False):
    partition: Partition
    stored: StoredWindow
    is_stored: bool = False
    """Whether its start offset is durable: before that nothing is delivered."""
    next_event_ms: int | None = None
    paused_until_ms: int = 0
    """Nothing is delivered before: members may still process what they got before the broker started."""
    waiters: FetchQueue = field(default_factory=FetchQueue)
    hungry_members: set[str] = field(default_factory=set)
    """Members of a group that is ordered by key whose last fetch found nothing: others have the keys."""
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SHARE_COUNTERS, 0))
    """What happened since the start, for metrics. Redeliveries are counted by the window."""

    @property
    def key(self) -> ShareKey:
        return self.stored.key

    @property
    def window(self) -> Window:
        return self.stored.window

    @property
    def is_deleted(self) -> bool:
        return self.stored.is_deleted

    def end_offset(self, is_read_committed: bool) -> int:
        partition = self.partition
        return partition.last_stable_offset if is_read_committed else partition.high_watermark

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
        self.partition.waiters.add(self.waiters)

    def delete(self) -> None:
        """The group or the topic was deleted: wake all fetches."""
        self.stored.is_deleted = True
        self.partition.waiters.discard(self.waiters)
        self.waiters.wake()

    def may_deliver(self, now_ms: int, config: ShareConfig) -> bool:
        """Whether records may be locked now."""
        window = self.window
        if self.is_deleted or not window.set_ordered(config.rules.is_ordered):
            return False
        is_paused = config.rules.is_ordered and now_ms < self.paused_until_ms
        return not is_paused and window.room(config.rules) > 0

    def has_more(self, now_ms: int, config: ShareConfig) -> bool:
        """Whether a fetch would get records now; in a group that is ordered by key, whether it would look for some."""
        if not self.may_deliver(now_ms, config):
            return False
        window = self.window
        end_offset = self.end_offset(config.is_read_committed)
        return any(run.first < end_offset for run in window.runs(now_ms, records_max=1, runs_max=1))


def group_numbers(shares: Iterable[SharePartition], now_ms: int) -> dict[str, float]:
    """The metrics of a group by their names, without the members. Runs in a thread, which changes nothing."""
    numbers: dict[str, float] = dict.fromkeys((*SHARE_GAUGES, *SHARE_COUNTERS), 0)
    for share in shares:
        window = share.window
        in_flight, dying = (
            window.spans.records_in[RecordState.ACQUIRED],
            window.spans.records_in[RecordState.ARCHIVING],
        )
        numbers["in_flight"] += in_flight
        numbers["dying"] += dying
        numbers["waiting"] += max(share.lag - in_flight - dying, 0)
        numbers["window_pieces"] += len(window.spans)
        numbers["redelivered"] += window.redelivered_records
        numbers["oldest_age_seconds"] = max(numbers["oldest_age_seconds"], _age_s(share, now_ms))
        for name, count in share.counters.items():
            numbers[name] += count
    return numbers


def _age_s(share: SharePartition, now_ms: int) -> float:
    try:
        oldest_ms = share.oldest_timestamp_ms()
    except (HeadraceError, OSError):
        return 0.0  # retention is deleting it
    return max(now_ms - oldest_ms, 0) / 1000 if oldest_ms is not None and oldest_ms >= 0 else 0.0
