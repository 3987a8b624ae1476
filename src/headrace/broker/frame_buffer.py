"""The bytes of one connection between the socket and its requests.

The socket's bytes are received right where the frames are read from, and the memory is used again and again: a copy of
a large request costs less in copying than in new memory. So a frame is a view that is valid only until the next bytes
are received, and a caller that keeps a part of it keeps a copy.
"""

from __future__ import annotations

import struct

from headrace.protocol.framing import SIZE_BYTES

# Room for small requests: most connections never need more.
CAPACITY_BYTES_MIN = 16_384
# A busy connection is read in pieces of this size, as large as the event loop reads at a time: so a wake-up takes many
# frames, and one system call sends their responses.
CAPACITY_BYTES_USUAL = 262_144
# Memory above this is freed after the request that needed it.
CAPACITY_BYTES_KEPT = 2_097_152

_SIZE = struct.Struct(">i")


class FrameTooLarge(Exception):
    """A frame whose size is negative or over the limit."""


class FrameBuffer:
    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._memory = bytearray(CAPACITY_BYTES_MIN)
        self._begin = 0
        self._end = 0
        self._was_filled = False

    def __len__(self) -> int:
        """Bytes that were received and are in no frame yet."""
        return self._end - self._begin

    def free(self) -> memoryview:
        """Where the next bytes may be received; never empty."""
        if self._begin == self._end:
            self._begin = self._end = 0
            self._choose_capacity()
        elif self._was_filled and len(self._memory) < CAPACITY_BYTES_USUAL:
            self._move(CAPACITY_BYTES_USUAL)
        elif self._begin and self._begin + self._first_bytes() > len(self._memory):
            self._move(len(self._memory))
        if self._end == len(self._memory):
            # Twice what was received, and not the whole frame: an announced size alone must not take memory.
            wanted = max(self._first_bytes(), len(self) + 1)
            self._move(min(max(wanted, CAPACITY_BYTES_USUAL), max(2 * len(self), CAPACITY_BYTES_USUAL)))
        return memoryview(self._memory)[self._end :]

    def received(self, count: int) -> None:
        """This many bytes were received into the memory of `free`."""
        self._end += count
        self._was_filled = self._end == len(self._memory)

    def next_frame(self) -> memoryview | None:
        """The next complete frame, or None; raises FrameTooLarge."""
        if self._end - self._begin < SIZE_BYTES:
            return None
        end = self._begin + self._first_bytes()
        if end > self._end:
            return None
        begin, self._begin = self._begin + SIZE_BYTES, end
        return memoryview(self._memory)[begin:end]

    def clear(self) -> None:
        self._memory = bytearray(SIZE_BYTES)
        self._begin = self._end = 0

    def _first_bytes(self) -> int:
        """Bytes of the first frame with its size field; of the size field alone until the size is known."""
        if self._end - self._begin < SIZE_BYTES:
            return SIZE_BYTES
        (frame_bytes,) = _SIZE.unpack_from(self._memory, self._begin)
        if not 0 <= frame_bytes <= self._frame_bytes_max:
            raise FrameTooLarge(f"a request of {frame_bytes} bytes")
        return SIZE_BYTES + int(frame_bytes)

    def _choose_capacity(self) -> None:
        """Between requests: grow if the buffer was full, and free what a large request needed."""
        capacity = len(self._memory)
        if capacity > CAPACITY_BYTES_KEPT or (self._was_filled and capacity < CAPACITY_BYTES_USUAL):
            self._memory = bytearray(CAPACITY_BYTES_USUAL)

    def _move(self, capacity: int) -> None:
        """Move the unread bytes to the front, of new memory if the capacity changes."""
        count = len(self)
        memory = self._memory if capacity == len(self._memory) else bytearray(capacity)
        memory[:count] = self._memory[self._begin : self._end]
        self._memory, self._begin, self._end = memory, 0, count
