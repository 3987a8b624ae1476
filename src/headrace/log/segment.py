"""One segment: a file of batches, one after the other, with its indexes.

The log's own thread appends; any thread may read. The end of the segment, `extent`, is one tuple that is replaced as a
whole, so that a reader never sees the size after one append and the offset after another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

from headrace.log.aborted_index import AbortedIndex
from headrace.log.damage import Damage
from headrace.log.errors import CorruptSegment
from headrace.log.filesystem import Buffer, FileSystem, OpenFile
from headrace.log.index import (
    NO_TIMESTAMP,
    OFFSET_ENTRY_BYTES,
    OffsetIndex,
    TimeIndex,
)
from headrace.log.index_files import IndexFiles, LastEntries
from headrace.log.segment_names import LOG_SUFFIX, SEGMENT_SUFFIXES
from headrace.records.batch import (
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    checksum_matches,
)

# Index entries hold offsets relative to the segment's first, in 32 bits.
RELATIVE_OFFSET_MAX = 2**31 - 1
# Headers are read in pieces of this size: large enough that small batches cost few system calls.
WALK_BYTES = 256 * 1024

LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD_BYTES
_unpack_header = HEADER.unpack_from


Written = tuple[int, int, int, int]
"""A batch for indexes and extent: its size, last offset, first timestamp and largest timestamp."""


class Segment:
    """`stem` is the path of its files without suffixes (`segment_path`); `suffix` follows theirs, such as `.swap`."""

    __slots__ = (
        "_aborted_index",
        "_bytes_since_index",
        "_file",
        "_files",
        "_index_files",
        "_lock",
        "_max_timestamp_known",
        "_offset_index",
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
        size_bytes: int = 0,
        next_offset: int | None = None,
        index_interval_bytes: int = 4096,
        created_ms: int = 0,
        suffix: str = "",
    ) -> None:
        self._files = files
        self.stem = stem
        self.base_offset = base_offset
        self.extent = (base_offset if next_offset is None else next_offset, size_bytes)
        """(first offset after the segment, its size): always of the same moment."""
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
        self._index_files = IndexFiles(files, stem, suffix)
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        return self.extent[1]

    @property
    def next_offset(self) -> int:
        return self.extent[0]

    @property
    def path(self) -> str:
        return self.stem + LOG_SUFFIX + self._index_files.extension

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(self.stem + suffix + self._index_files.extension for suffix in SEGMENT_SUFFIXES)

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def index_bytes(self) -> int:
        return len(self.offset_index()) * OFFSET_ENTRY_BYTES

    # --- files ---

    def file(self) -> OpenFile:
        """The open log file. Keep the result while its descriptor is used."""
        file = self._file
        if file is None:
            with self._lock:
                file = self._file
                if file is None:
                    file = self._file = OpenFile(self._files, self.path, self._files.open(self.path))
        return file

    def open_indexes(self) -> tuple[OpenFile, ...]:
        """Offset and time index, to be synced."""
        return self._index_files.open()

    def create(self) -> None:
        """Create the files of an empty segment; existing files are truncated."""
        self._file = OpenFile(self._files, self.path, self._files.create(self.path))
        self.truncate()
        self._offset_index, self._time_index = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        self._aborted_index = AbortedIndex()
        self.write_indexes()

    def release(self) -> None:
        """Release descriptor and indexes; they are opened again on demand."""
        self._file = None
        self._offset_index = None
        self._time_index = None
        if self._aborted_index:  # an empty one takes no memory, and saves a look for its file
            self._aborted_index = None

    def change_suffix(self, suffix: str) -> None:
        """Rename the files to end in suffix, the log last: once it has its new name, all of them have.

        Reads that hold the open descriptor continue; others find that the files are missing.
        """
        with suppress(OSError):
            self.file()
        for kind in reversed(SEGMENT_SUFFIXES):
            path = self.stem + kind
            try:
                self._files.rename(path + self._index_files.extension, path + suffix)
            except FileNotFoundError:
                if kind == LOG_SUFFIX:
                    raise
        self._index_files.extension = suffix

    def remove(self) -> None:
        for path in self.paths:
            with suppress(FileNotFoundError):
                self._files.remove(path)
        self.release()

    # --- indexes ---

    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        return self._load_indexes()[0] if index is None else index

    def time_index(self) -> TimeIndex:
        index = self._time_index
        return self._load_indexes()[1] if index is None else index

    def _load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        # What was loaded is returned and not read back: another thread may release it immediately.
        with self._lock:
            offsets, times = self._offset_index, self._time_index
            if offsets is not None and times is not None:
                return offsets, times
            loaded = self._index_files.read(self.base_offset, self.size_bytes)
            if loaded is not None and (loaded[0] or self.size_bytes <= 2 * WALK_BYTES):
                self._offset_index, self._time_index = loaded
                return loaded
        return self._rebuild_indexes()

    def aborted_index(self) -> AbortedIndex:
        """The transactions whose abort markers are in this segment."""
        index = self._aborted_index
        if index is None:
            index = self._aborted_index = self._index_files.read_aborted()
        return index

    def use_aborted_index(self, index: AbortedIndex) -> None:
        self._aborted_index = index

    def write_aborted_index(self) -> None:
        if self._aborted_index is not None:
            self._index_files.write_aborted(self._aborted_index)

    def last_entries(self) -> LastEntries | None:
        """The last index entries, without loading the indexes. None if the files are invalid."""
        return self._index_files.last_entries(self.base_offset, self.size_bytes)

    def use_indexes(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Use indexes that are built while the segment is checked."""
        self._offset_index, self._time_index = offsets, times

    def _rebuild_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Build both from the log, for readers that found an index missing or invalid."""
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
        """Bring indexes and extent up to date with a batch that was written at a position."""
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
        """Continue where an earlier process stopped."""
        self._bytes_since_index = bytes_since_index
        self.max_timestamp_ms = max_timestamp_ms
        self.max_timestamp_offset = max_timestamp_offset
        self._max_timestamp_known = True

    def write_indexes(self, *, is_final: bool = False) -> None:
        """Bring the files of offset and time index up to date; a final one ends with the largest timestamp."""
        if is_final:
            self.time_index().append_if_later(self.max_timestamp_ms, self.max_timestamp_offset)
        self._index_files.write(self.offset_index(), self.time_index())

    def largest_timestamp_ms(self) -> int:
        """Largest timestamp in the segment; -1 if no record has one."""
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
        """Whether the log has the largest timestamp of the time index; otherwise the indexes are built from the log.

        The index has no checksum, and retention would remove a segment that looks older than it is.
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
        with suppress(CorruptSegment):  # for a segment that cannot be read only the index is left
            self.max_timestamp_ms, self.max_timestamp_offset = self._rebuild_indexes()[1].last()
        return largest == (self.max_timestamp_ms, self.max_timestamp_offset)

    def first_batch_timestamp_ms(self) -> int | None:
        """Timestamp from which the age of the segment counts; None if it is empty."""
        if self.first_timestamp_ms is None and self.size_bytes:
            for _, header in self.walk(0, chunk_bytes=HEADER_BYTES):
                self.first_timestamp_ms = header.base_timestamp_ms
                break
        return self.first_timestamp_ms

    # --- batches ---

    def append(
        self,
        parts: Sequence[Buffer],
        size: int,
        last_offset: int,
        base_timestamp_ms: int,
        max_timestamp_ms: int,
    ) -> None:
        """Write one batch after the last. After an OSError the segment is unchanged, except for bytes after its end."""
        position = self.extent[1]
        file = self._file or self.file()
        self._files.write(file.fd, parts, position)
        self.note(position, size, last_offset, base_timestamp_ms, max_timestamp_ms)

    def append_all(self, parts: Sequence[Buffer], batches: Sequence[Written]) -> None:
        """Write several batches as `append` does, with one system call."""
        position = self.extent[1]
        file = self._file or self.file()
        self._files.write(file.fd, parts, position)
        for size, last_offset, base_timestamp_ms, max_timestamp_ms in batches:
            self.note(position, size, last_offset, base_timestamp_ms, max_timestamp_ms)
            position += size

    def truncate(self) -> None:
        """Remove bytes after the end that a failed write may have left."""
        file = self.file()
        self._files.truncate(file.fd, self.extent[1])

    def read(self, count: int, position: int) -> bytes:
        # A reference of its own: another thread may release the file meanwhile, and its number must not be reused.
        file = self._file or self.file()
        return self._files.read(file.fd, count, position)

    def read_nowait(self, count: int, position: int) -> Buffer:
        file = self._file or self.file()
        return self._files.read_nowait(file.fd, count, position)

    def walk(
        self, position: int, end: int | None = None, *, chunk_bytes: int = WALK_BYTES
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of every batch from a position on; known damage is skipped.

        Checksums are not verified. CorruptSegment where the bytes cannot be a header.
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
            header = BatchHeader(*_unpack_header(buffer, position - buffer_start))
            if header.magic != MAGIC or header.length < LENGTH_MIN or position + header.size_bytes > end:
                raise self.corrupt(position, "no batch starts here")
            yield position, header
            position += header.size_bytes

    def batches(self) -> Iterator[bytes]:
        """Every batch, with its checksum verified; CorruptSegment for an invalid one."""
        for position, header in self.walk(0):
            batch = self.read(header.size_bytes, position)
            if not checksum_matches(batch):
                raise self.corrupt(position, "the checksum of the batch does not match")
            yield batch

    def corrupt(self, position: int, reason: str) -> CorruptSegment:
        return CorruptSegment(path=self.path, position=position, reason=reason)
