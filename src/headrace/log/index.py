"""Offset index and time index of one segment, in Kafka's formats: sparse, sorted, appended to, rebuilt when in doubt.

An index is a shortcut, never the truth: an invalid one is dropped, and a reader checks what it finds at the
position it was sent to. Entries live in arrays in memory and reach the disk when the segment is closed or checkpointed.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left, bisect_right

OFFSET_ENTRY = struct.Struct(">ii")
"""Relative last offset of a batch, position."""
TIME_ENTRY = struct.Struct(">qi")
"""Timestamp, relative offset."""
OFFSET_ENTRY_BYTES = OFFSET_ENTRY.size
TIME_ENTRY_BYTES = TIME_ENTRY.size
_SWAP = sys.byteorder == "little"
NO_TIMESTAMP = -1


class OffsetIndex:
    """Relative last offset of a batch -> position where that batch starts."""

    __slots__ = ("base_offset", "positions", "relative_offsets", "written_entries")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.relative_offsets = array("i")
        self.positions = array("i")
        self.written_entries = 0

    def __len__(self) -> int:
        return len(self.relative_offsets)

    def append(self, last_offset: int, position: int) -> None:
        # Positions first: a reader in another thread searches the offsets and then reads the position of the entry.
        self.positions.append(position)
        self.relative_offsets.append(last_offset - self.base_offset)

    def position_at_or_before(self, offset: int) -> int:
        """Where to start reading headers in order to find the batch that holds offset."""
        found = bisect_right(self.relative_offsets, offset - self.base_offset)
        return self.positions[found - 1] if found else 0

    def boundary_before(self, position: int) -> int:
        """Start of the last indexed batch that starts at or before position."""
        found = bisect_right(self.positions, position, 0, len(self.relative_offsets))
        return self.positions[found - 1] if found else 0

    def truncate(self, position: int) -> None:
        """Drop the batches that start at or after position."""
        keep = bisect_left(self.positions, position)
        del self.relative_offsets[keep:]
        del self.positions[keep:]
        self.written_entries = min(self.written_entries, keep)

    def encode_from(self, entry: int) -> bytes:
        both = array("i", bytes(8 * (len(self.relative_offsets) - entry)))
        both[0::2] = self.relative_offsets[entry:]
        both[1::2] = self.positions[entry:]
        if _SWAP:
            both.byteswap()
        return both.tobytes()

    @classmethod
    def decode(cls, content: bytes, base_offset: int, segment_bytes: int) -> OffsetIndex | None:
        """None if the log of this segment cannot have produced the content."""
        index = cls(base_offset)
        if len(content) % OFFSET_ENTRY_BYTES:
            return None
        both = array("i")
        both.frombytes(content)
        if _SWAP:
            both.byteswap()
        index.relative_offsets = both[0::2]
        index.positions = both[1::2]
        index.written_entries = len(index)
        if not index:
            return index
        in_range = (
            index.relative_offsets[0] >= 0 and index.positions[0] >= 0 and index.positions[-1] < segment_bytes
        )
        if in_range and _strictly_rising(index.relative_offsets) and _strictly_rising(index.positions):
            return index
        return None


class TimeIndex:
    """Largest timestamp so far -> relative last offset of the batch that holds it."""

    __slots__ = ("base_offset", "relative_offsets", "timestamps_ms", "written_entries")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.timestamps_ms = array("q")
        self.relative_offsets = array("i")
        self.written_entries = 0

    def __len__(self) -> int:
        return len(self.timestamps_ms)

    def append_if_later(self, timestamp_ms: int, offset: int) -> None:
        if timestamp_ms > (self.timestamps_ms[-1] if self.timestamps_ms else NO_TIMESTAMP):
            self.relative_offsets.append(offset - self.base_offset)
            self.timestamps_ms.append(timestamp_ms)

    def offset_before(self, timestamp_ms: int) -> int:
        """Every record below the returned offset is older than timestamp_ms (the one at it may be, too)."""
        found = bisect_left(self.timestamps_ms, timestamp_ms)
        return self.base_offset + self.relative_offsets[found - 1] if found else self.base_offset

    def truncate(self, next_offset: int) -> None:
        keep = bisect_left(self.relative_offsets, next_offset - self.base_offset)
        del self.timestamps_ms[keep:]
        del self.relative_offsets[keep:]
        self.written_entries = min(self.written_entries, keep)

    def last(self) -> tuple[int, int]:
        """Largest timestamp and its offset; (-1, base offset) if the index is empty."""
        if not self.timestamps_ms:
            return NO_TIMESTAMP, self.base_offset
        return self.timestamps_ms[-1], self.base_offset + self.relative_offsets[-1]

    def encode_from(self, entry: int) -> bytes:
        pack = TIME_ENTRY.pack
        return b"".join(
            pack(*pair)
            for pair in zip(self.timestamps_ms[entry:], self.relative_offsets[entry:], strict=True)
        )

    @classmethod
    def decode(cls, content: bytes, base_offset: int) -> TimeIndex | None:
        index = cls(base_offset)
        if len(content) % TIME_ENTRY_BYTES:
            return None
        for timestamp_ms, relative_offset in TIME_ENTRY.iter_unpack(content):
            index.timestamps_ms.append(timestamp_ms)
            index.relative_offsets.append(relative_offset)
        index.written_entries = len(index)
        if index and not (
            index.timestamps_ms[0] >= 0
            and index.relative_offsets[0] >= 0
            and _strictly_rising(index.timestamps_ms)
            and _strictly_rising(index.relative_offsets)
        ):
            return None
        return index


def _strictly_rising(values: array[int]) -> bool:
    return all(map(int.__lt__, values, values[1:]))
