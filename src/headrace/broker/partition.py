"""A partition as the broker sees it: a log, who waits for it to grow, and how far readers may look."""

from __future__ import annotations

from typing import Protocol

from headrace.log.partition_log import PartitionLog


class Growth(Protocol):
    """What waits for a partition to grow."""

    def add(self, added_bytes: int) -> None:
        """So many bytes more can be read."""

    def wake(self) -> None:
        """Nothing more will come: the topic was deleted."""


class Partition:
    __slots__ = ("index", "is_gone", "log", "reads_unsynced", "topic_name", "waiters")

    def __init__(self, topic_name: str, index: int, log: PartitionLog, *, reads_unsynced: bool) -> None:
        self.topic_name = topic_name
        self.index = index
        self.log = log
        # With durability "os" a record may be read as soon as it is in the page cache.
        self.reads_unsynced = reads_unsynced
        self.waiters: set[Growth] = set()
        self.is_gone = False

    @property
    def high_watermark(self) -> int:
        """Readers see what lies below: never a record that a power cut could take back before it was acknowledged."""
        return self.log.end_offset if self.reads_unsynced else self.log.durable_offset

    @property
    def last_stable_offset(self) -> int:
        """Readers of committed data see what lies below: nothing there can still change."""
        return min(self.log.last_stable_offset, self.high_watermark)

    @property
    def has_archive(self) -> bool:
        """Whether there may be something of it in the archive."""
        return self.log.config.is_archived or (self.log.archive is not None and self.log.archive.has_list)

    def grown(self, added_bytes: int) -> None:
        """More can be read: tell the fetches that wait for it."""
        for waiter in tuple(self.waiters):
            waiter.add(added_bytes)

    def gone(self) -> None:
        """The topic was deleted: the fetches that wait for more are to hear that at once."""
        self.is_gone = True
        for waiter in tuple(self.waiters):
            waiter.wake()

    def __str__(self) -> str:
        return f"{self.topic_name}-{self.index}"
