from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.edges.direct.packet import (
    HEADER_BYTES,
    NUMBER_MAX,
    SPAN_MAX,
    BadPacket,
    Garbage,
    NumberedEvent,
    Packet,
    decode_packet,
    encode_packet,
)
from tests.edges.direct.conftest import heartbeat, packet

CONTENT = st.none() | st.binary(max_size=50)
HEADERS = st.lists(st.tuples(st.text(max_size=8), CONTENT), max_size=3).map(tuple)


@st.composite
def packets(draw: st.DrawFn) -> Packet:
    first = draw(st.integers(0, NUMBER_MAX - SPAN_MAX))
    deltas = sorted(draw(st.sets(st.integers(0, SPAN_MAX - 1), max_size=5)))
    next = first + draw(st.integers(deltas[-1] + 1 if deltas else 0, SPAN_MAX))
    events = tuple(
        NumberedEvent(
            number=first + delta,
            timestamp_ms=draw(st.integers(0, 2**62)),
            key=draw(CONTENT),
            value=draw(CONTENT),
            headers=draw(HEADERS),
        )
        for delta in deltas
    )
    stream, sent_ms = draw(st.integers(0, 2**64 - 1)), draw(st.integers(0, 2**63))
    return Packet(stream=stream, first=first, next=next, events=events, sent_ms=sent_ms)


@given(packets())
def test_decoded_packet_is_the_one_that_was_encoded(sent: Packet) -> None:
    assert decode_packet(encode_packet(sent)) == sent


@given(packets(), st.data())
def test_truncated_packet_is_rejected_at_every_length(sent: Packet, data: st.DataObject) -> None:
    encoded = encode_packet(sent)
    length = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(BadPacket):
        decode_packet(encoded[:length])


@given(packets(), st.binary(min_size=1))
def test_bytes_after_the_events_are_rejected(sent: Packet, more: bytes) -> None:
    with pytest.raises(BadPacket):
        decode_packet(encode_packet(sent) + more)


@given(st.binary() | st.binary().map(lambda rest: b"HR\x01" + rest))
def test_random_bytes_are_a_packet_or_rejected(data: bytes) -> None:
    try:
        found = decode_packet(data)
    except BadPacket:
        return
    assert decode_packet(encode_packet(found)) == found


@given(packets(), st.data())
def test_damaged_packet_is_a_packet_or_rejected(sent: Packet, data: st.DataObject) -> None:
    damaged = bytearray(encode_packet(sent))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode_packet(bytes(damaged))
    except BadPacket:
        return
    assert found.first <= found.next <= found.first + SPAN_MAX
    assert all(found.first <= each.number < found.next for each in found.events)


def reason(data: bytes) -> Garbage:
    with pytest.raises(BadPacket) as error:
        decode_packet(data)
    return error.value.reason


def test_reasons_say_what_is_wrong() -> None:
    good = encode_packet(packet(3, 5))
    assert reason(b"") == reason(b"page.views:1|c") == Garbage.NO_HEADER
    assert reason(good[:2] + b"\x02" + good[3:]) == Garbage.VERSION
    assert reason(good[: HEADER_BYTES - 1]) == reason(good[:-1]) == Garbage.TRUNCATED
    backwards = struct.pack(">2sBBIQQQQ", b"HR", 1, 1, 0, 7, 5, 4, 0)
    assert reason(backwards) == Garbage.NUMBERS


def test_length_beyond_the_packet_is_rejected_without_memory_for_it() -> None:
    huge = struct.pack(">2sBBIQQQQ", b"HR", 1, 0, 1, 7, 0, 1, 0) + struct.pack(
        ">IqIIH", 0, 0, 2**32 - 2, 0, 0
    )
    assert reason(huge) == Garbage.TRUNCATED
    many = struct.pack(">2sBBIQQQQ", b"HR", 1, 0, 2**24, 7, 0, 2**24, 0)
    assert reason(many) == Garbage.TRUNCATED


def test_heartbeat_is_the_header_alone() -> None:
    assert len(encode_packet(heartbeat(9))) == HEADER_BYTES
