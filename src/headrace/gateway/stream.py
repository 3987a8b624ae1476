"""A subscription as the events that one client gets, by server-sent events or over a WebSocket.

The id of an event is the position after it, in all partitions of the stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from headrace.errors import HeadraceError
from headrace.gateway.answers import error_answer
from headrace.gateway.event_ids import EventId
from headrace.gateway.feed import Kept
from headrace.gateway.log_reader import Gap, Offsets
from headrace.gateway.records import Format, Record, encoded
from headrace.gateway.subscription import Subscription


class Wire(Struct, frozen=True, kw_only=True):
    """How a kind of stream writes its events. Each gets an id, and JSON."""

    name: str
    record: Callable[[str, bytes], bytes]
    gap: Callable[[str, bytes], bytes]
    error: Callable[[bytes], bytes]
    heartbeat: Callable[[str | None], bytes]
    """Gets the id if records were passed by since the last event, which a client needs not read again."""


class Stream:
    """`key`, if it is set, selects the records with this key."""

    def __init__(
        self, subscription: Subscription, wire: Wire, *, cluster: str, format: Format, key: bytes | None
    ) -> None:
        self._subscription = subscription
        self._wire = wire
        self._cluster = cluster
        self._format = format
        self._key = key
        self._offsets: Offsets = subscription.offsets
        self._time_ms = 0
        self._is_shared = len(self._offsets) == 1
        self._cached = f"{wire.name} {format}"
        self._sent_s = time.monotonic()
        self._has_passed = False

    @property
    def is_closed(self) -> bool:
        return self._subscription.is_closed

    def close(self) -> None:
        self._subscription.close()

    async def next(self, *, wait_s: float) -> Sequence[bytes]:
        """The next events; after a silence, a heartbeat."""
        taken = await self._subscription.next(wait_s=wait_s)
        if self.is_closed:
            return ()
        events = [self._gap(each) for each in self._subscription.gaps]
        self._subscription.gaps.clear()
        for record, kept in taken:
            self._offsets[record.topic][record.partition] = record.offset + 1
            self._time_ms = record.timestamp_ms
            self._has_passed = self._key is not None and record.key != self._key
            if not self._has_passed:
                events.append(self._record(record, kept))
        now_s = time.monotonic()
        if not events and now_s - self._sent_s >= wait_s:
            events.append(self._wire.heartbeat(self._id() if self._has_passed else None))
            self._has_passed = False
        if events:
            self._sent_s = now_s
        return events

    def error(self, error: HeadraceError) -> bytes:
        """The last event of a stream that can't continue."""
        return self._wire.error(msgspec.json.encode(error_answer(error)))

    def _id(self) -> str:
        return EventId(self._offsets, self._time_ms, self._cluster).text()

    def _record(self, record: Record, kept: Kept | None) -> bytes:
        if kept is None or not self._is_shared:
            return self._wire.record(self._id(), encoded(record, self._format))
        if self._cached not in kept.events:
            kept.events[self._cached] = self._record(record, None)
        return kept.events[self._cached]

    def _gap(self, gap: Gap) -> bytes:
        self._offsets[gap.topic][gap.partition] = gap.next
        return self._wire.gap(self._id(), msgspec.json.encode(structs.asdict(gap)))


def json_with(name: str, value: Any, rest: bytes) -> bytes:
    """A JSON object with one field more, in front of its others."""
    return b'{"%b":%b,%b' % (name.encode(), msgspec.json.encode(value), rest[1:])
