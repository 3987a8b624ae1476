"""One event between its sender and the broker."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

Headers = tuple[tuple[str, bytes | None], ...]

OVERHEAD_BYTES = 500
"""Memory of an event besides its bytes, rounded up: 430 to 460 were measured for the objects of Python. The client
copies what is in flight, so events of 1,000 bytes take a fifth more than is counted."""


RECEIVED_HEADER = "edge.received"
"""Of an event that sums up others: how many. Each other event stands for itself."""

DROPPED_HEADER = "edge.dropped"
"""How many events were lost before this one, because the edge or its kernel had no room for them."""


class Event(Struct, frozen=True, kw_only=True, gc=False):
    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int = 0
    """0: the time at which the intake takes it"""

    @property
    def memory_bytes(self) -> int:
        """What the event takes in memory, roughly."""
        size = OVERHEAD_BYTES + len(self.value or b"") + len(self.key or b"")
        for name, value in self.headers:
            size += len(name) + len(value or b"")
        return size

    @property
    def stands_for(self) -> int:
        """How many events are lost with it: itself, or those that it sums up, and those that it reports as lost."""
        received, dropped = 1, 0
        for name, value in self.headers:
            with contextlib.suppress(ValueError):
                if name == RECEIVED_HEADER:
                    received = int(value or b"")
                elif name == DROPPED_HEADER:
                    dropped += int(value or b"")
        return received + dropped


class Fate(StrEnum):
    """What became of an event."""

    DELIVERED = "delivered"  # the broker has acknowledged it
    BUFFERED = "buffered"  # it is in the buffer on disk, and will be delivered
    DROPPED = "dropped"


class Reason(StrEnum):
    """Why an event was dropped."""

    NEWEST = "newest"  # the queue was full when it arrived
    OLDEST = "oldest"  # newer ones needed its room in the queue
    REJECTED = "rejected"  # the broker does not accept it: it is too large, or its topic does not exist
    STOPPED = "stopped"  # the edge ended before the broker acknowledged it


OnFate = Callable[[int, Fate, str], None]
"""Called once for each event of an offer: its number in the offer, what became of it, and why it was dropped. It may
run in another thread, and must be quick."""


class Entry(Struct, kw_only=True, gc=False):
    """An event that an intake has taken."""

    event: Event
    memory_bytes: int
    timestamp_ms: int
    number: int = 0
    """in its offer"""
    on_fate: OnFate | None = None
    place: int = -1
    """in the buffer on disk"""

    def report(self, fate: Fate, why: str = "") -> None:
        if self.on_fate is not None:
            self.on_fate(self.number, fate, why)
