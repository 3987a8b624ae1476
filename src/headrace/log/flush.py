"""Making appended batches durable, in a thread beside the log's own.

All files are open before the thread starts, so that a failure in the thread is a failure of the disk: a lack of file
descriptors shows before anything is synced, and the next flush can cover the same batches.
"""

from __future__ import annotations

import os

from msgspec import Struct

from headrace.log.filesystem import FileSystem, OpenFile
from headrace.log.segment import Segment
from headrace.log.segments import Segments


class UnsyncedSegment(Struct, frozen=True, kw_only=True):
    """A segment whose bytes up to size_bytes are in the page cache only."""

    segment: Segment
    file: OpenFile
    size_bytes: int
    indexes: tuple[OpenFile, ...]
    """Of a closed segment: recovery does not rebuild them where it need not check the batches."""


class Flush(Struct, frozen=True, kw_only=True):
    """What was not durable at one moment. `sync` uses nothing that the log's own thread changes."""

    files: FileSystem
    unsynced: tuple[UnsyncedSegment, ...]
    end_offset: int
    """Everything below is durable once `sync` has returned."""
    end_position: int
    end_segment: Segment
    flushed_bytes: int
    names_changed: int
    directories: tuple[OpenFile, ...]
    """The partition's folder if files were created in it; also its parent while the partition is new."""

    def sync(self) -> None:
        """Oldest first, so that the durable part is always a prefix of the log. An OSError is final."""
        for entry in self.unsynced:
            self.files.sync(entry.file.fd)
            for index in entry.indexes:
                self.files.sync(index.fd)
        for directory in self.directories:
            self.files.sync_names(directory.fd)


class LogFlusher:
    """Tracks which part of a log is durable."""

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._folder = segments.folder
        self._names_synced = 0

    def begin(self) -> Flush:
        """What to sync so that everything appended so far is durable.

        An OSError means that files could not be opened. Nothing has changed then, and it may be retried.
        """
        segments = self._segments.view.segments
        active = segments[-1]
        next_offset, size_bytes = active.extent
        entries = [
            UnsyncedSegment(
                segment=segment,
                file=segment.file(),
                size_bytes=segment.size_bytes,
                indexes=segment.open_indexes(),
            )
            for segment in _unsynced_closed(segments)
        ]
        if size_bytes > active.synced_bytes:
            entries.append(
                UnsyncedSegment(segment=active, file=active.file(), size_bytes=size_bytes, indexes=())
            )
        return Flush(
            files=self._folder.files,
            unsynced=tuple(entries),
            end_offset=next_offset,
            end_position=size_bytes,
            end_segment=active,
            flushed_bytes=sum(entry.size_bytes - entry.segment.synced_bytes for entry in entries),
            names_changed=self._folder.names_changed,
            directories=self._unsynced_directories(),
        )

    def _unsynced_directories(self) -> tuple[OpenFile, ...]:
        folder = self._folder
        if folder.names_changed == self._names_synced:
            return ()
        own = folder.open()
        if folder.is_new and self._names_synced == 0:
            parent = os.path.dirname(folder.path) or "."
            return own, OpenFile(folder.files, parent, folder.files.open_directory(parent))
        return (own,)

    def finish(self, flush: Flush) -> None:
        """The flush was synced: what it covers is durable."""
        active = self._segments.active
        for entry in flush.unsynced:
            segment = entry.segment
            segment.synced_bytes = max(segment.synced_bytes, entry.size_bytes)
            if segment is not active and not segment.is_retired:
                # It stayed open until this sync, which reports any error since it was written.
                self._segments.keep_open(segment)
        self._names_synced = max(self._names_synced, flush.names_changed)
        if flush.end_offset > self._segments.durable_offset and self._folder.read_only_reason is None:
            self._segments.set_durable(flush.end_offset, flush.end_segment, flush.end_position)

    def fail(self, error: BaseException) -> None:
        """A flush failed. It is never retried: the kernel may have dropped the pages and would report success."""
        self._folder.become_read_only(f"fsync failed: {error}")

    def flush(self) -> None:
        """Make everything durable now, in this thread."""
        folder = self._folder
        try:
            flush = self.begin()
        except OSError as error:
            raise folder.storage_failed(f"{folder.path} cannot be flushed: {error}") from error
        try:
            flush.sync()
        except OSError as error:
            self.fail(error)
            raise folder.storage_failed(f"fsync in {folder.path} failed: {error}") from error
        self.finish(flush)


def _unsynced_closed(segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """The closed segments that are not synced: the newest ones, because a flush syncs the oldest first."""
    first = active = len(segments) - 1
    while first > 0 and segments[first - 1].synced_bytes < segments[first - 1].extent[1]:
        first -= 1
    return segments[first:active]
