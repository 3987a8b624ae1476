"""Making appended batches durable, in a thread beside the log's own.

All files are open before the thread starts, so that a failure in the thread is a failure of the disk: a lack of file
descriptors shows before anything is synced, and the next flush can cover the same batches.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from msgspec import Struct

from headrace.log.filesystem import FileSystem, OpenFile
from headrace.log.folder import PartitionFolder
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
    """Knows what of a log is not durable yet."""

    def __init__(self, folder: PartitionFolder, segments: Segments) -> None:
        self._folder = folder
        self._segments = segments
        self._closed: list[Segment] = []
        self._names_synced = 0
        self.is_new = False
        """Whether the folder was created by this process, so that its own name has to be synced."""

    def add_closed(self, segment: Segment) -> None:
        """A segment is no longer the active one; the next flush covers it."""
        if segment.synced_bytes < segment.size_bytes and segment not in self._closed:
            self._closed.append(segment)

    def forget(self, segments: Collection[Segment]) -> None:
        """These are no longer part of the log."""
        if self._closed:
            self._closed = [segment for segment in self._closed if segment not in segments]

    def begin(self) -> Flush:
        """What to sync so that everything appended so far is durable.

        An OSError means that files could not be opened. Nothing has changed then, and it may be retried.
        """
        active = self._segments.view.segments[-1]
        next_offset, size_bytes = active.extent
        entries = [
            UnsyncedSegment(
                segment=segment,
                file=segment.file(),
                size_bytes=segment.size_bytes,
                indexes=segment.open_indexes(),
            )
            for segment in self._closed
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
        if self.is_new and self._names_synced == 0:
            parent = os.path.dirname(folder.path) or "."
            return own, OpenFile(folder.files, parent, folder.files.open_directory(parent))
        return (own,)

    def finish(self, flush: Flush) -> None:
        """The flush was synced: what it covers is durable."""
        for entry in flush.unsynced:
            entry.segment.synced_bytes = max(entry.segment.synced_bytes, entry.size_bytes)
        if self._closed:
            self._release_synced()
        self._names_synced = max(self._names_synced, flush.names_changed)
        if flush.end_offset > self._segments.durable_offset and self._folder.read_only_reason is None:
            self._segments.set_durable(flush.end_offset, flush.end_segment, flush.end_position)

    def _release_synced(self) -> None:
        """A closed segment stays open until its last sync, which reports any error since it was written."""
        closed, self._closed = self._closed, []
        for segment in closed:
            if segment.synced_bytes < segment.size_bytes:
                self._closed.append(segment)
            else:
                self._segments.keep_open(segment)

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
