"""The index files of one segment: offset index, time index and the list of aborted transactions.

`index` and `aborted_index` have the entries; here they are read and written.
"""

from __future__ import annotations

import struct
from contextlib import suppress

from msgspec import Struct

from headrace.log.aborted_index import AbortedIndex
from headrace.log.filesystem import FileSystem, OpenFile
from headrace.log.index import NO_TIMESTAMP, OFFSET_ENTRY, TIME_ENTRY, OffsetIndex, TimeIndex
from headrace.log.segment_names import ABORTED_INDEX_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX


class LastEntries(Struct, frozen=True, kw_only=True):
    """The last entries of the two indexes of a segment."""

    position: int
    """Position of the last batch in the index; 0 if the index is empty."""
    last_offset: int | None
    """Last offset of that batch."""
    max_timestamp_ms: int
    max_timestamp_offset: int


class IndexFiles:
    """`stem` is the path without suffixes; `extension` follows the suffix of each file, such as `.swap`."""

    __slots__ = ("_files", "_stem", "extension")

    def __init__(self, files: FileSystem, stem: str, extension: str) -> None:
        self._files = files
        self._stem = stem
        self.extension = extension

    def _path(self, suffix: str) -> str:
        return self._stem + suffix + self.extension

    def open(self) -> tuple[OpenFile, ...]:
        """Offset and time index, to be synced; files that retention has removed are skipped."""
        opened = []
        for suffix in (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = self._path(suffix)
            with suppress(FileNotFoundError):
                opened.append(OpenFile(self._files, path, self._files.open(path)))
        return tuple(opened)

    def read(self, base_offset: int, size_bytes: int) -> tuple[OffsetIndex, TimeIndex] | None:
        """Offset and time index; None if they cannot belong to a segment of this size. A missing file is empty."""
        offsets = OffsetIndex.decode(self._read(OFFSET_INDEX_SUFFIX), base_offset, size_bytes)
        times = TimeIndex.decode(self._read(TIME_INDEX_SUFFIX), base_offset)
        return None if offsets is None or times is None else (offsets, times)

    def _read(self, suffix: str) -> bytes:
        try:
            return self._files.read_whole(self._path(suffix))
        except FileNotFoundError:
            return b""

    def write(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Append the entries that the files lack; entries that a crash has left are truncated."""
        for index, suffix, entry in (
            (offsets, OFFSET_INDEX_SUFFIX, OFFSET_ENTRY),
            (times, TIME_INDEX_SUFFIX, TIME_ENTRY),
        ):
            fd = self._files.create(self._path(suffix))
            try:
                size = index.written_entries * entry.size
                self._files.truncate(fd, size)
                content = index.encode_from(index.written_entries)
                if content:
                    self._files.write(fd, (content,), size)
            finally:
                self._files.close(fd)
            index.written_entries = len(index)

    def last_entries(self, base_offset: int, size_bytes: int) -> LastEntries | None:
        """The last entries, without loading the indexes; None if they cannot belong to a segment of this size."""
        offset_entry = self._last_entry(OFFSET_INDEX_SUFFIX, OFFSET_ENTRY)
        time_entry = self._last_entry(TIME_INDEX_SUFFIX, TIME_ENTRY)
        if offset_entry is None or time_entry is None:
            return None
        relative_offset, position = OFFSET_ENTRY.unpack(offset_entry) if offset_entry else (-1, 0)
        timestamp_ms, relative_of_time = TIME_ENTRY.unpack(time_entry) if time_entry else (NO_TIMESTAMP, 0)
        if not 0 <= position <= size_bytes or relative_of_time < 0 or timestamp_ms < NO_TIMESTAMP:
            return None
        return LastEntries(
            position=position,
            last_offset=base_offset + relative_offset if offset_entry else None,
            max_timestamp_ms=timestamp_ms,
            max_timestamp_offset=base_offset + relative_of_time,
        )

    def _last_entry(self, suffix: str, entry: struct.Struct) -> bytes | None:
        path = self._path(suffix)
        try:
            size = self._files.size(path)
            if size % entry.size:
                return None
            if size == 0:
                return b""
            fd = self._files.open(path)
        except FileNotFoundError:
            return None
        try:
            return self._files.read(fd, entry.size, size - entry.size)
        finally:
            self._files.close(fd)

    def read_aborted(self) -> AbortedIndex:
        """The aborted transactions; empty if there is no file."""
        return AbortedIndex.decode(self._read(ABORTED_INDEX_SUFFIX), self._stem + ABORTED_INDEX_SUFFIX)

    def write_aborted(self, index: AbortedIndex) -> None:
        """Write the list durably, if it has changed; while nothing was aborted there is no file."""
        if not index.is_written:
            self._files.write_whole(self._path(ABORTED_INDEX_SUFFIX), index.encode())
            index.is_written = True
