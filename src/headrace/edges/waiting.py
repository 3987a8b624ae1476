"""Events that wait in memory for the producer: the policies `drop-newest`, `drop-oldest` and `block`."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec.structs import replace

from headrace.edges.event import DROPPED_HEADER, Entry, Reason
from headrace.edges.room import Room

WhenFull = Literal["drop-newest", "drop-oldest", "block"]


class WaitingEvents:
    """A queue in memory, bounded in bytes. `on_taken` gets how many were taken, before any of them is delivered or
    dropped through `on_dropped`."""

    def __init__(
        self,
        when_full: WhenFull,
        *,
        bytes_max: int,
        on_taken: Callable[[int], None],
        on_dropped: Callable[[Entry, Reason], None],
        marks_drops: bool = True,
    ) -> None:
        """`marks_drops`: the next event of a topic says in a header how many were dropped before it."""
        self._when_full = when_full
        self._marks_drops = marks_drops
        self._unmarked: Counter[str] = Counter()
        self._bytes_max = bytes_max
        self._on_taken = on_taken
        self._on_dropped = on_dropped
        self._entries: deque[Entry] = deque()
        self._changed = threading.Condition()
        self.memory_bytes = 0
        self.buffered_bytes = 0
        self.room = Room()

    def offer(self, entries: Sequence[Entry]) -> bool:
        """Whether the entries were taken, all or none; those that are dropped were taken."""
        dropped: list[tuple[Entry, Reason]] = []
        with self._changed:
            if self._when_full == "block" and not self._fits(entries):
                self.room.miss()
                return False
            self._on_taken(len(entries))
            for entry in entries:
                if self._when_full == "drop-newest":
                    if not self._fits((entry,)):
                        dropped.append((self._count(entry), Reason.NEWEST))
                        continue
                    self._mark(entry)
                self._entries.append(entry)
                self.memory_bytes += entry.memory_bytes
            # An event that is larger than the queue still has its turn, alone.
            while self._when_full == "drop-oldest" and not self._fits(()) and len(self._entries) > 1:
                dropped.append((self._count(self._pop()), Reason.OLDEST))
            self._changed.notify()
        for entry, reason in dropped:
            self._on_dropped(entry, reason)
        return True

    def _fits(self, entries: Sequence[Entry]) -> bool:
        """Whether there is room; there always is in an empty queue."""
        added = sum(entry.memory_bytes for entry in entries)
        return not self._entries or self.memory_bytes + added <= self._bytes_max

    def _count(self, entry: Entry) -> Entry:
        if self._marks_drops:
            self._unmarked[entry.event.topic] += entry.event.stands_for
        return entry

    def _mark(self, entry: Entry) -> None:
        if self._unmarked and (count := self._unmarked.pop(entry.event.topic, 0)):
            mark = (DROPPED_HEADER, b"%d" % count)
            entry.event = replace(entry.event, headers=(*entry.event.headers, mark))

    def _pop(self) -> Entry:
        entry = self._entries.popleft()
        self.memory_bytes -= entry.memory_bytes
        return entry

    def take(self, bytes_max: int, timeout_s: float) -> list[Entry]:
        """The next entries, at least one and then up to `bytes_max`; empty if none arrives in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._entries, timeout_s):
                return []
            taken = [self._pop()]
            size = taken[0].memory_bytes
            while self._entries and (size := size + self._entries[0].memory_bytes) <= bytes_max:
                taken.append(self._pop())
            if self._when_full == "drop-oldest":
                for entry in taken:
                    self._mark(entry)
            has_room = self.memory_bytes <= self._bytes_max // 2
        if has_room:
            self.room.announce()
        return taken

    def settled(self, place: int) -> None:
        """Nothing is kept of an entry that was taken."""

    def maintain(self) -> None:
        """Memory needs no maintenance."""

    def close(self) -> list[Entry]:
        """The entries that nobody has taken."""
        with self._changed:
            left = [*self._entries]
            self._entries.clear()
            self.memory_bytes = 0
        return left
