"""Frames are read as they were sent, in any pieces, and memory follows the received bytes, not the announced size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.frame_buffer import (
    CAPACITY_BYTES_KEPT,
    CAPACITY_BYTES_MIN,
    CAPACITY_BYTES_USUAL,
    FrameBuffer,
    FrameTooLarge,
)

MEBIBYTE = 1_048_576


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def receive(buffer: FrameBuffer, data: bytes) -> None:
    """What an event loop does, in as many turns as it takes."""
    while data:
        free = buffer.free()
        count = min(len(free), len(data))
        free[:count] = data[:count]
        buffer.received(count)
        data = data[count:]


def taken(buffer: FrameBuffer) -> list[bytes]:
    frames = []
    while (frame := buffer.next_frame()) is not None:
        frames.append(bytes(frame))
    return frames


@given(
    payloads=st.lists(
        st.one_of(st.binary(max_size=50), st.integers(0, 100_000).map(lambda size: bytes(size)))
    ),
    pieces=st.lists(st.integers(1, 40_000), min_size=1),
    takes=st.lists(st.booleans(), min_size=1),
)
def test_frames_are_read_as_they_were_sent(
    payloads: list[bytes], pieces: list[int], takes: list[bool]
) -> None:
    buffer = FrameBuffer(MEBIBYTE)
    data = b"".join(map(framed, payloads))
    seen: list[bytes] = []
    turn = 0
    while data:
        count = pieces[turn % len(pieces)]
        receive(buffer, data[:count])
        data = data[count:]
        if takes[turn % len(takes)]:
            seen += taken(buffer)
        turn += 1
    assert seen + taken(buffer) == payloads
    assert len(buffer) == 0


def test_frame_of_no_bytes_is_a_frame() -> None:
    buffer = FrameBuffer(MEBIBYTE)
    receive(buffer, framed(b"") + framed(b"x"))
    assert taken(buffer) == [b"", b"x"]


@pytest.mark.parametrize("size", [-1, -(2**31), 1_001, 2**31 - 1])
def test_impossible_size_is_rejected(size: int) -> None:
    buffer = FrameBuffer(1_000)
    receive(buffer, size.to_bytes(4, "big", signed=True))
    with pytest.raises(FrameTooLarge, match=str(size)):
        buffer.next_frame()


def test_announced_size_takes_no_memory() -> None:
    buffer = FrameBuffer(100 * MEBIBYTE)
    receive(buffer, (100 * MEBIBYTE).to_bytes(4, "big") + bytes(10))
    assert len(buffer.free()) <= CAPACITY_BYTES_USUAL


def test_buffer_that_was_filled_grows_although_it_ends_within_a_frame() -> None:
    buffer = FrameBuffer(MEBIBYTE)
    payload = bytes(CAPACITY_BYTES_MIN - 50)
    receive(buffer, framed(payload) + framed(payload)[: CAPACITY_BYTES_MIN - len(framed(payload))])
    assert taken(buffer) == [payload]
    assert len(buffer.free()) > 5 * len(payload)
    receive(buffer, framed(payload)[CAPACITY_BYTES_MIN - len(framed(payload)) :])
    assert taken(buffer) == [payload]


def test_memory_of_a_large_request_is_freed() -> None:
    buffer = FrameBuffer(100 * MEBIBYTE)
    payload = bytes(range(256)) * (4 * CAPACITY_BYTES_KEPT // 256)
    receive(buffer, framed(payload))
    assert taken(buffer) == [payload]
    assert len(buffer.free()) <= CAPACITY_BYTES_USUAL
