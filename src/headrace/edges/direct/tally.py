"""What a receiver of direct messages counts, and the event that has the counts of an interval."""

from __future__ import annotations

from collections import Counter

import msgspec
from msgspec import Struct, field

from headrace.edges.times import WindowTime, time_text

FEED = "feed"
"""The type of the event of an interval."""


class Tally(Struct, kw_only=True):
    """Totals since the start of the edge."""

    messages: int = 0
    """datagrams, or messages of ZeroMQ or nng"""
    received: int = 0
    """events that arrived, each once"""
    missing: int = 0
    """numbers that neither arrived nor were recovered"""
    recovered: int = 0
    """events that were read from the topic of the publisher"""
    duplicates: int = 0
    late: int = 0
    """events that arrived after their gap was declared: they are missing, or recovered"""
    reordered: int = 0
    """packets that arrived out of order"""
    kernel: int = 0
    """messages that the kernel dropped"""
    garbage: Counter[str] = field(default_factory=Counter)
    """messages that are no packets, by reason"""
    dropped: Counter[str] = field(default_factory=Counter)
    """events that overload dropped, by reason"""

    def copy(self) -> Tally:
        return msgspec.structs.replace(self, garbage=Counter(self.garbage), dropped=Counter(self.dropped))


class IntervalEvent(Struct, frozen=True, kw_only=True):
    name: str
    type: str
    start: str
    end: str
    streams: int
    messages: int
    received: int
    missing: int
    recovered: int
    duplicates: int
    late: int
    reordered: int
    kernel: int
    garbage: dict[str, int]
    dropped: dict[str, int]


_encode = msgspec.json.Encoder().encode


def interval_event(name: str, time: WindowTime, before: Tally, now: Tally, *, streams: int) -> bytes:
    """The counts of an interval, from the totals at its start and at its end."""
    return _encode(
        IntervalEvent(
            name=name,
            type=FEED,
            start=time_text(time.start_ms),
            end=time_text(time.end_ms),
            streams=streams,
            messages=now.messages - before.messages,
            received=now.received - before.received,
            missing=now.missing - before.missing,
            recovered=now.recovered - before.recovered,
            duplicates=now.duplicates - before.duplicates,
            late=now.late - before.late,
            reordered=now.reordered - before.reordered,
            kernel=now.kernel - before.kernel,
            garbage=dict(now.garbage - before.garbage),
            dropped=dict(now.dropped - before.dropped),
        )
    )
