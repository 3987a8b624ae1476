"""What became of the events of an edge. received + replayed = delivered + dropped + pending, at any time."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Annotated

from msgspec import Struct


class Count(Struct, frozen=True, kw_only=True):
    received: Annotated[int, "events that the edge has handed over"]
    replayed: Annotated[int, "events that an earlier run has left in the buffer"]
    delivered: Annotated[int, "events that the broker has acknowledged"]
    dropped: Annotated[dict[str, int], "events that were dropped, by reason"]
    pending: Annotated[int, "events in memory, in flight or in the buffer"]
    pushed_back: Annotated[int, "how often there was no room, and the sender had to wait"]
    memory_bytes: Annotated[int, "of events in memory and in flight"]
    buffered_bytes: Annotated[int, "of the buffer on disk"]

    @property
    def dropped_total(self) -> int:
        return sum(self.dropped.values())

    def text(self) -> str:
        """For people."""
        parts = [f"{self.received:,} received", f"{self.delivered:,} delivered"]
        if self.replayed:
            parts.append(f"{self.replayed:,} of them from an earlier run")
        if self.dropped:
            reasons = ", ".join(f"{reason} {count:,}" for reason, count in sorted(self.dropped.items()))
            parts.append(f"{self.dropped_total:,} dropped ({reasons})")
        if self.pending:
            parts.append(f"{self.pending:,} pending")
        return ", ".join(parts)


class Counters:
    """Changed by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._received = 0
        self._delivered = 0
        self._replayed = 0
        self._pushed_back = 0
        self._dropped: Counter[str] = Counter()

    def add_received(self, count: int) -> None:
        with self._lock:
            self._received += count

    def add_replayed(self, count: int) -> None:
        with self._lock:
            self._replayed += count

    def add_delivered(self, count: int) -> None:
        with self._lock:
            self._delivered += count

    def add_dropped(self, reason: str, count: int = 1) -> None:
        with self._lock:
            self._dropped[str(reason)] += count

    def add_pushed_back(self) -> None:
        with self._lock:
            self._pushed_back += 1

    def count(self, *, memory_bytes: int = 0, buffered_bytes: int = 0) -> Count:
        with self._lock:
            dropped = dict(self._dropped)
            ended = self._delivered + sum(dropped.values())
            return Count(
                received=self._received,
                replayed=self._replayed,
                delivered=self._delivered,
                dropped=dropped,
                pending=self._received + self._replayed - ended,
                pushed_back=self._pushed_back,
                memory_bytes=memory_bytes,
                buffered_bytes=buffered_bytes,
            )
