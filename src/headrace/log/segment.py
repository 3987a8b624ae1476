"""One segment: a file of batches, one after the other, with its indexes.

The log thread appends; any thread may read. What a reader needs to know of the end, `extent`, is one tuple that is
replaced as a whole, so that it never sees the size of one append and the offset of another.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from struct import Struct

from headrace.log.aborted_index import AbortedIndex
from headrace.log.damage import Damage
from headrace.log.errors import CorruptSegment
from headrace.log.filesystem import Buffer, FileSystem, OpenFile
from headrace.log.index import (
    NO_TIMESTAMP,
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    OffsetIndex,
    TimeIndex,
    last_offset_entry,
    last_time_entry,
)
from headrace.records.batch import (
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    checksum_matches,
)
from headrace.values import value

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
ABORTED_INDEX_SUFFIX = ".txnindex"
SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_INDEX_SUFFIX)

# Index entries hold offsets relative to the segment's first, in 32 bits.
RELATIVE_OFFSET_MAX = 2**31 - 1
# Headers are walked in pieces of this size: large enough that small batches cost few system calls.
WALK_BYTES = 256 * 1024

_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD_BYTES
_unpack_header = HEADER.unpack_from
# What hopping from batch to batch needs: base offset, length, (epoch), magic, (crc, attributes), last offset delta.
_hop = Struct(">qi4xb6xi")
HOP_BYTES = _hop.size
_unpack_hop = _hop.unpack_from


@value
class LastEntries:
    """What the two indexes of a segment say last."""

    position: int
    """Begin of the last batch that is indexed; 0 when none is."""
    last_offset: int | None
    """Last offset of that batch."""
    max_timestamp_ms: int
    max_timestamp_offset: int


def segment_path(directory: str, base_offset: int) -> str:
    """Path of a segment without its suffix."""
    return os.path.join(directory, f"{base_offset:020d}")


class Segment:
    """`stem` is the path without suffix; see `segment_path`."""

    __slots__ = (
        "_aborted_index",
        "_bytes_since_index",
        "_file",
        "_files",
        "_lock",
        "_max_timestamp_known",
        "_offset_index",
        "_suffix",
        "_time_index",
        "base_offset",
        "created_ms",
        "damages",
        "extent",
        "first_timestamp_ms",
        "index_interval_bytes",
        "is_retired",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "stem",
        "synced_bytes",
    )

    def __init__(
        self,
        *,
        files: FileSystem,
        stem: str,
        base_offset: int,
        size_bytes: int,
        next_offset: int,
        index_interval_bytes: int,
        created_ms: int,
        suffix: str = "",
    ) -> None:
        self._files = files
        self.stem = stem
        self.base_offset = base_offset
        self.extent = (next_offset, size_bytes)
        """(first offset behind the segment, its size): always of the same moment."""
        self.created_ms = created_ms
        self.first_timestamp_ms: int | None = None
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.synced_bytes = size_bytes
        self.damages: tuple[Damage, ...] = ()
        self.is_retired = False
        self.index_interval_bytes = index_interval_bytes
        self._bytes_since_index = 0
        self._file: OpenFile | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._aborted_index: AbortedIndex | None = None
        self._max_timestamp_known = False
        self._suffix = suffix
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        return self.extent[1]

    @property
    def next_offset(self) -> int:
        return self.extent[0]

    @property
    def path(self) -> str:
        return self.stem + LOG_SUFFIX + self._suffix

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self.stem + suffix + self._suffix for suffix in SEGMENT_SUFFIXES)

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def index_bytes(self) -> int:
        return len(self.offset_index()) * OFFSET_ENTRY_BYTES

    # --- files ---

    def file(self) -> OpenFile:
        """The open log file. Keep the answer for as long as its descriptor is used."""
        file = self._file
        if file is None:
            with self._lock:
                file = self._file
                if file is None:
                    file = self._file = OpenFile(self._files, self.path, self._files.open(self.path))
        return file

    def open_indexes(self) -> tuple[OpenFile, ...]:
        """The index files, to be synced; those that retention has removed are left out."""
        opened = []
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = self.stem + suffix + self._suffix
            with suppress(FileNotFoundError):
                opened.append(OpenFile(self._files, path, self._files.open(path)))
        return tuple(opened)

    def create(self) -> None:
        """Make the files of a segment that holds nothing yet; whatever bears their names is emptied."""
        self._file = OpenFile(self._files, self.path, self._files.create(self.path))
        self.cut_to_size()
        self._offset_index, self._time_index = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        self._aborted_index = AbortedIndex()
        self.write_indexes()

    def release(self) -> None:
        """Give back descriptor and indexes of a closed segment; they are opened again on demand."""
        self._file = None
        self._offset_index = None
        self._time_index = None
        if self._aborted_index:  # an empty one takes no room, and saves looking for its file
            self._aborted_index = None

    def change_suffix(self, suffix: str) -> None:
        """Rename the files to end in suffix, the log last: once it has its new name, all of them have.

        Readers inside go on through the open descriptor, and without one find that the segment is gone.
        """
        with suppress(OSError):
            self.file()
        for kind in reversed(SEGMENT_SUFFIXES):
            path = self.stem + kind
            try:
                self._files.rename(path + self._suffix, path + suffix)
            except FileNotFoundError:
                if kind == LOG_SUFFIX:
                    raise
        self._suffix = suffix

    def remove(self) -> None:
        for path in self.paths:
            try:
                self._files.remove(path)
            except FileNotFoundError:
                continue
        self.release()

    # --- indexes ---

    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        return self._load_indexes()[0] if index is None else index

    def time_index(self) -> TimeIndex:
        index = self._time_index
        return self._load_indexes()[1] if index is None else index

    def _load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        # What was loaded is returned and not read back: another thread may release it at once.
        with self._lock:
            loaded = (self._offset_index, self._time_index)
            if loaded[0] is not None and loaded[1] is not None:
                return loaded[0], loaded[1]
            offsets = OffsetIndex.decode(
                self._read_index(OFFSET_INDEX_SUFFIX), self.base_offset, self.size_bytes
            )
            times = TimeIndex.decode(self._read_index(TIME_INDEX_SUFFIX), self.base_offset)
            if offsets is not None and times is not None and (offsets or self.size_bytes <= 2 * WALK_BYTES):
                self._time_index, self._offset_index = times, offsets
                return offsets, times
        return self._rebuild_indexes()

    def _read_index(self, suffix: str) -> bytes:
        try:
            return self._files.read_whole(self.stem + suffix + self._suffix)
        except FileNotFoundError:
            return b""

    def aborted_index(self) -> AbortedIndex:
        """The transactions whose abort markers stand in this segment."""
        index = self._aborted_index
        if index is None:
            index = AbortedIndex.decode(self._read_index(ABORTED_INDEX_SUFFIX))
            if index is None:
                path = self.stem + ABORTED_INDEX_SUFFIX
                raise CorruptSegment(path=path, position=0, reason="it is no list of aborted transactions")
            self._aborted_index = index
        return index

    def use_aborted_index(self, index: AbortedIndex) -> None:
        self._aborted_index = index

    def write_aborted_index(self) -> None:
        """Bring the file up to date, on disk; there is none while nothing was aborted."""
        index = self._aborted_index
        if index is not None and not index.is_written:
            path = self.stem + ABORTED_INDEX_SUFFIX + self._suffix
            self._files.write_whole(path, index.encode())
            index.is_written = True

    def last_entries(self) -> LastEntries | None:
        """The last index entries, without loading the indexes. None when the files cannot be right."""
        offset_entry = self._last_entry(OFFSET_INDEX_SUFFIX, OFFSET_ENTRY_BYTES)
        time_entry = self._last_entry(TIME_INDEX_SUFFIX, TIME_ENTRY_BYTES)
        if offset_entry is None or time_entry is None:
            return None
        relative_offset, position = last_offset_entry(offset_entry) if offset_entry else (-1, 0)
        timestamp_ms, relative_of_time = last_time_entry(time_entry) if time_entry else (NO_TIMESTAMP, 0)
        if not 0 <= position <= self.size_bytes or relative_of_time < 0 or timestamp_ms < NO_TIMESTAMP:
            return None
        return LastEntries(
            position=position,
            last_offset=self.base_offset + relative_offset if offset_entry else None,
            max_timestamp_ms=timestamp_ms,
            max_timestamp_offset=self.base_offset + relative_of_time,
        )

    def _last_entry(self, suffix: str, entry_bytes: int) -> bytes | None:
        path = self.stem + suffix + self._suffix
        try:
            size = self._files.size(path)
            if size % entry_bytes:
                return None
            if size == 0:
                return b""
            fd = self._files.open(path)
        except FileNotFoundError:
            return None
        try:
            return self._files.read(fd, entry_bytes, size - entry_bytes)
        finally:
            self._files.close(fd)

    def use_indexes(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Take indexes that are being built while the segment is checked."""
        self._offset_index, self._time_index = offsets, times

    def _rebuild_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Build both from the log, for readers whose index turned out to be missing or wrong."""
        offsets, times = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        bytes_since = 0
        largest = (NO_TIMESTAMP, self.base_offset)
        for position, header in self.walk(0):
            if header.max_timestamp_ms > largest[0]:
                largest = (header.max_timestamp_ms, header.last_offset)
            if bytes_since > self.index_interval_bytes:
                offsets.append(header.last_offset, position)
                times.append_if_later(*largest)
                bytes_since = 0
            bytes_since += header.size_bytes
        times.append_if_later(*largest)
        self._time_index, self._offset_index = times, offsets
        return offsets, times

    def note(
        self, position: int, size: int, last_offset: int, base_timestamp_ms: int, max_timestamp_ms: int
    ) -> None:
        """Bring indexes and extent up to date with a batch that stands in the file at position."""
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = last_offset
        if self.first_timestamp_ms is None:
            self.first_timestamp_ms = base_timestamp_ms
        if self._bytes_since_index > self.index_interval_bytes:
            self.offset_index().append(last_offset, position)
            self.time_index().append_if_later(self.max_timestamp_ms, self.max_timestamp_offset)
            self._bytes_since_index = size
        else:
            self._bytes_since_index += size
        self.extent = (last_offset + 1, position + size)

    def resume(self, *, bytes_since_index: int, max_timestamp_ms: int, max_timestamp_offset: int) -> None:
        """Go on appending where an earlier process stopped."""
        self._bytes_since_index = bytes_since_index
        self.max_timestamp_ms = max_timestamp_ms
        self.max_timestamp_offset = max_timestamp_offset
        self._max_timestamp_known = True

    def write_indexes(self, *, is_final: bool = False) -> None:
        """Append what the files lack; what they have too much (a crash left it) is cut."""
        if is_final:
            self.time_index().append_if_later(self.max_timestamp_ms, self.max_timestamp_offset)
        for index, suffix, entry_bytes in (
            (self.offset_index(), OFFSET_INDEX_SUFFIX, OFFSET_ENTRY_BYTES),
            (self.time_index(), TIME_INDEX_SUFFIX, TIME_ENTRY_BYTES),
        ):
            fd = self._files.create(self.stem + suffix + self._suffix)
            try:
                size = index.written_entries * entry_bytes
                self._files.truncate(fd, size)
                content = index.encode_from(index.written_entries)
                if content:
                    self._files.write(fd, (content,), size)
            finally:
                self._files.close(fd)
            index.written_entries = len(index)

    def largest_timestamp_ms(self) -> int:
        """Largest timestamp in the segment, -1 when no record has one."""
        if not self._max_timestamp_known and self.max_timestamp_ms == NO_TIMESTAMP and self.size_bytes:
            entries = self.last_entries()
            if entries is not None and entries.max_timestamp_ms >= 0:
                self.max_timestamp_ms = entries.max_timestamp_ms
                self.max_timestamp_offset = entries.max_timestamp_offset
            else:
                self.max_timestamp_ms, self.max_timestamp_offset = self.time_index().last()
            self._max_timestamp_known = True
        return self.max_timestamp_ms

    def newest_ms(self) -> int:
        """Largest timestamp in the segment; if no record has one, when the file was last written."""
        timestamp_ms = self.largest_timestamp_ms()
        return timestamp_ms if timestamp_ms >= 0 else self._files.modified_ms(self.path)

    def confirms_largest_timestamp(self) -> bool:
        """Whether the log has the timestamp that the time index names; otherwise the indexes are built from the log.

        The index has no checksum, and a segment that looks older than it is would be removed.
        """
        largest = (self.largest_timestamp_ms(), self.max_timestamp_offset)
        try:
            position = self.offset_index().position_at_or_before(largest[1])
            for _, header in self.walk(position, chunk_bytes=HEADER_BYTES):
                if header.last_offset >= largest[1]:
                    if header.max_timestamp_ms == largest[0]:
                        return True
                    break
        except CorruptSegment:
            pass
        with suppress(CorruptSegment):  # what can't be read has no other age than its index says
            self.max_timestamp_ms, self.max_timestamp_offset = self._rebuild_indexes()[1].last()
        return largest == (self.max_timestamp_ms, self.max_timestamp_offset)

    def first_batch_timestamp_ms(self) -> int | None:
        """Timestamp that the age of the segment counts from; None when it is empty."""
        if self.first_timestamp_ms is None and self.size_bytes:
            for _, header in self.walk(0, chunk_bytes=HEADER_BYTES):
                self.first_timestamp_ms = header.base_timestamp_ms
                break
        return self.first_timestamp_ms

    # --- batches ---

    def append(
        self,
        parts: tuple[Buffer, Buffer],
        size: int,
        last_offset: int,
        base_timestamp_ms: int,
        max_timestamp_ms: int,
    ) -> None:
        """Write one batch behind the last. An OSError leaves the segment as it was, but for bytes behind its end."""
        position = self.extent[1]
        file = self._file or self.file()
        self._files.write(file.fd, parts, position)
        self.note(position, size, last_offset, base_timestamp_ms, max_timestamp_ms)

    def cut_to_size(self) -> None:
        """Remove bytes behind the end that a failed write may have left."""
        file = self.file()
        self._files.truncate(file.fd, self.extent[1])

    def read(self, count: int, position: int) -> bytes:
        # Held by name: another thread may let go of the file meanwhile, and its number must not be reused.
        file = self._file or self.file()
        return self._files.read(file.fd, count, position)

    def read_nowait(self, count: int, position: int) -> Buffer:
        file = self._file or self.file()
        return self._files.read_nowait(file.fd, count, position)

    def walk(
        self, position: int, end: int | None = None, *, chunk_bytes: int = WALK_BYTES
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of every batch from position on, stepping over known damage.

        Checksums are not looked at. CorruptSegment where a header cannot be one.
        """
        end = self.extent[1] if end is None else end
        file = self.file()
        buffer: Buffer = b""
        buffer_start = position
        gaps = {
            damage.position: damage.end_position
            for damage in self.damages
            if damage.end_position > damage.position
        }
        while position < end:
            if position in gaps:
                position = gaps[position]
                continue
            if position + HEADER_BYTES > buffer_start + len(buffer):
                buffer = self._files.read(file.fd, min(chunk_bytes, end - position), position)
                buffer_start = position
            if position + HEADER_BYTES > buffer_start + len(buffer):
                raise self.corrupt(position, "the file ends inside a batch header")
            header = BatchHeader._make(_unpack_header(buffer, position - buffer_start))
            if header.magic != MAGIC or header.length < _LENGTH_MIN or position + header.size_bytes > end:
                raise self.corrupt(position, "no batch begins here")
            yield position, header
            position += header.size_bytes

    def batches(self) -> Iterator[bytes]:
        """Every batch in full, its checksum verified; CorruptSegment for one that is not sound."""
        for position, header in self.walk(0):
            batch = self.read(header.size_bytes, position)
            if not checksum_matches(batch):
                raise self.corrupt(position, "the checksum of the batch does not match")
            yield batch

    def corrupt(self, position: int, reason: str) -> CorruptSegment:
        return CorruptSegment(path=self.path, position=position, reason=reason)


def hop(buffer: Buffer, at: int) -> tuple[int, int, int]:
    """(base offset, size, last offset) of the batch at this place of a buffer; size 0 where there can be none."""
    base_offset, length, magic, last_offset_delta = _unpack_hop(buffer, at)
    if magic != MAGIC or length < _LENGTH_MIN:
        return base_offset, 0, base_offset
    return base_offset, length + LOG_OVERHEAD_BYTES, base_offset + last_offset_delta
