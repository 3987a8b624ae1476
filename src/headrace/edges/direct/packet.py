"""The wire format of numbered feeds: a packet is a datagram, or a message of ZeroMQ or nng. Values only, no I/O.

All numbers are big-endian. A packet has a header of 40 bytes, and then its events:

    2  magic "HR"          4  number - first
    1  version             8  timestamp in ms
    1  flags               4  length of the key, or NULL
    4  events              4  length of the value, or NULL
    8  stream              2  headers
    8  first                  the key, the value
    8  next                   each header: 2 length of the name, 4 length of the value, or NULL; the name, the value
    8  sent at, in ms

A stream is one numbering: whoever numbers from 0 again takes another stream. A packet accounts for the numbers from
`first` to `next`: those without an event in it belong to no event, such as the marker of a transaction in a log. So a
packet whose `first` is beyond the `next` of the last one shows a loss. A packet without events is a heartbeat: it
shows a loss at the end, too.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntFlag, StrEnum

from msgspec import Struct

from headrace.edges.event import Headers

MAGIC = b"HR"
VERSION = 1
NUMBER_MAX = 2**63 - 1
SPAN_MAX = 2**24
"""Numbers that one packet accounts for. A forged one can't make a receiver skip more."""

_HEADER = struct.Struct(">2sBBIQQQQ")
_EVENT = struct.Struct(">IqIIH")
_NAME = struct.Struct(">HI")
_NULL = 2**32 - 1

HEADER_BYTES = _HEADER.size


class Flag(IntFlag):
    HEARTBEAT = 1  # no event: the publisher is idle


class Garbage(StrEnum):
    """Why a packet is not read."""

    NO_HEADER = "no header"
    VERSION = "version"
    TRUNCATED = "truncated"
    NUMBERS = "numbers"


class BadPacket(Exception):
    def __init__(self, reason: Garbage) -> None:
        super().__init__(reason)
        self.reason = reason


class NumberedEvent(Struct, frozen=True, kw_only=True, gc=False):
    number: int
    timestamp_ms: int
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()


class Packet(Struct, frozen=True, kw_only=True, gc=False):
    stream: int
    first: int
    next: int
    events: tuple[NumberedEvent, ...] = ()
    sent_ms: int = 0


def encode_packet(packet: Packet) -> bytes:
    parts = [encode_event(event, packet.first) for event in packet.events]
    return join_packet(packet.stream, packet.first, packet.next, parts, packet.sent_ms)


def join_packet(stream: int, first: int, next: int, encoded: Sequence[bytes], sent_ms: int) -> bytes:
    """A packet of events that are encoded for this `first`."""
    assert 0 <= first <= next <= first + SPAN_MAX
    flags = 0 if encoded else Flag.HEARTBEAT
    header = _HEADER.pack(MAGIC, VERSION, flags, len(encoded), stream, first, next, sent_ms)
    return b"".join((header, *encoded))


def encode_event(event: NumberedEvent, first: int) -> bytes:
    key, value = event.key, event.value
    parts = [
        _EVENT.pack(
            event.number - first, event.timestamp_ms, _length(key), _length(value), len(event.headers)
        ),
        key or b"",
        value or b"",
    ]
    for name, content in event.headers:
        encoded = name.encode()
        parts += (_NAME.pack(len(encoded), _length(content)), encoded, content or b"")
    return b"".join(parts)


def _length(part: bytes | None) -> int:
    return _NULL if part is None else len(part)


def decode_packet(data: bytes) -> Packet:
    """BadPacket if it is none."""
    if data[:2] != MAGIC:
        raise BadPacket(Garbage.NO_HEADER)
    # The version comes first: another one may have another header.
    if len(data) > 2 and data[2] != VERSION:
        raise BadPacket(Garbage.VERSION)
    if len(data) < HEADER_BYTES:
        raise BadPacket(Garbage.TRUNCATED)
    _magic, _version, _flags, count, stream, first, next, sent_ms = _HEADER.unpack_from(data)
    if not first <= next <= min(first + SPAN_MAX, NUMBER_MAX) or count > next - first:
        raise BadPacket(Garbage.NUMBERS)
    try:
        events = _decode_events(data, count, first, next)
    except (struct.error, UnicodeDecodeError) as error:
        raise BadPacket(Garbage.TRUNCATED) from error
    return Packet(stream=stream, first=first, next=next, events=events, sent_ms=sent_ms)


def _decode_events(data: bytes, count: int, first: int, next: int) -> tuple[NumberedEvent, ...]:
    events = []
    at, number_least = HEADER_BYTES, first
    for _ in range(count):
        delta, timestamp_ms, key_bytes, value_bytes, header_count = _EVENT.unpack_from(data, at)
        key, at = _part(data, at + _EVENT.size, key_bytes)
        value, at = _part(data, at, value_bytes)
        headers: list[tuple[str, bytes | None]] = []
        for _ in range(header_count):
            name_bytes, content_bytes = _NAME.unpack_from(data, at)
            name, at = _part(data, at + _NAME.size, name_bytes)
            content, at = _part(data, at, content_bytes)
            headers.append(((name or b"").decode(), content))
        number = first + delta
        if not number_least <= number < next or timestamp_ms < 0:
            raise BadPacket(Garbage.NUMBERS)
        number_least = number + 1
        events.append(
            NumberedEvent(
                number=number, timestamp_ms=timestamp_ms, key=key, value=value, headers=tuple(headers)
            )
        )
    if at != len(data):
        raise BadPacket(Garbage.TRUNCATED)
    return tuple(events)


def _part(data: bytes, at: int, length: int) -> tuple[bytes | None, int]:
    if length == _NULL:
        return None, at
    end = at + length
    if end > len(data):
        raise BadPacket(Garbage.TRUNCATED)
    return data[at:end], end
