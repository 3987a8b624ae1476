"""Events in the order of their numbers -> packets of a bounded size. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from headrace.edges.direct.packet import (
    HEADER_BYTES,
    SPAN_MAX,
    NumberedEvent,
    encode_event,
    join_packet,
)


class PackingBounds(Struct, frozen=True, kw_only=True):
    packet_bytes: int
    """packets are filled up to this size; a larger event has a packet of its own"""
    packet_bytes_max: int
    """what the transport takes at most; a larger event is not sent"""


class Packed(Struct, frozen=True, kw_only=True):
    packets: list[bytes]
    next: int
    """the number after the last one that is accounted for"""
    too_large: int
    """events that were not sent: the next packet begins after them, so receivers see a gap"""


def pack(
    stream: int, first: int, events: Iterable[NumberedEvent], sent_ms: int, bounds: PackingBounds
) -> Packed:
    """Packets that account for all numbers from `first` to that of the last event."""
    packing = _Packing(stream, first, sent_ms, bounds)
    for event in events:
        packing.add(event)
    packing.end()
    return Packed(packets=packing.packets, next=packing.next, too_large=packing.too_large)


class _Packing:
    def __init__(self, stream: int, first: int, sent_ms: int, bounds: PackingBounds) -> None:
        self._stream = stream
        self._sent_ms = sent_ms
        self._bounds = bounds
        self._first = self.next = first
        self._encoded: list[bytes] = []
        self._size = HEADER_BYTES
        self.packets: list[bytes] = []
        self.too_large = 0

    def add(self, event: NumberedEvent) -> None:
        assert event.number >= self.next, "numbers grow"
        if event.number + 1 - self._first > SPAN_MAX:
            self.end()
            self._account_for_hole(event.number)
        encoded = encode_event(event, self._first)
        if self._encoded and self._size + len(encoded) > self._bounds.packet_bytes:
            self.end()
            encoded = encode_event(event, self._first)
        if HEADER_BYTES + len(encoded) > self._bounds.packet_bytes_max:
            self._skip(event)
            return
        self._encoded.append(encoded)
        self._size += len(encoded)
        self.next = event.number + 1

    def _account_for_hole(self, number: int) -> None:
        """Heartbeats for numbers without events that are more than one packet may account for."""
        while number + 1 - self._first > SPAN_MAX:
            self.next = self._first + SPAN_MAX
            self._append()

    def _skip(self, event: NumberedEvent) -> None:
        self.too_large += 1
        self.end()
        self._first = self.next = event.number + 1

    def end(self) -> None:
        if self._encoded:
            self._append()

    def _append(self) -> None:
        self.packets.append(join_packet(self._stream, self._first, self.next, self._encoded, self._sent_ms))
        self._encoded = []
        self._size = HEADER_BYTES
        self._first = self.next
