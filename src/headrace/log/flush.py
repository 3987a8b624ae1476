"""Making appended batches durable, in a thread beside the log's own."""

from __future__ import annotations

import os

from headrace.log.filesystem import FileSystem, OpenFile
from headrace.log.segment import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, Segment
from headrace.values import value


@value
class UnsyncedSegment:
    """A segment with bytes that are only in the page cache, up to size_bytes."""

    segment: Segment
    file: OpenFile
    size_bytes: int
    is_closed: bool


@value
class Flush:
    """What had not reached the disk at one moment. `sync` touches nothing that the log thread changes."""

    files: FileSystem
    directory: str
    unsynced: tuple[UnsyncedSegment, ...]
    end_offset: int
    """Everything below is durable once `sync` has returned."""
    end_position: int
    end_segment: Segment
    flushed_bytes: int
    directory_changes: int
    syncs_directory: bool
    syncs_parent: bool
    """The partition's own directory is new."""

    def sync(self) -> None:
        """Oldest first, so that what is durable is always a beginning of the log. An OSError is final."""
        for entry in self.unsynced:
            self.files.sync(entry.file.fd)
            if entry.is_closed and not entry.segment.is_retired:
                self._sync_index(entry.segment.stem + OFFSET_INDEX_SUFFIX)
                self._sync_index(entry.segment.stem + TIME_INDEX_SUFFIX)
        if self.syncs_directory:
            self.files.sync_directory(self.directory)
        if self.syncs_parent:
            self.files.sync_directory(os.path.dirname(self.directory) or ".")

    def _sync_index(self, path: str) -> None:
        try:
            fd = self.files.open(path)
        except FileNotFoundError:
            # Retention was faster.
            return
        try:
            self.files.sync(fd)
        finally:
            self.files.close(fd)
