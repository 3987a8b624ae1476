"""Making appended batches durable, in a thread beside the log's own.

All files are open before the thread begins, so that a failure in it is one of the disk: running out of descriptors is
found before anything is synced, and the next flush can cover the same batches.
"""

from __future__ import annotations

from headrace.log.filesystem import FileSystem, OpenFile
from headrace.log.segment import Segment
from headrace.values import value


@value
class UnsyncedSegment:
    """A segment with bytes that are only in the page cache, up to size_bytes."""

    segment: Segment
    file: OpenFile
    size_bytes: int
    indexes: tuple[OpenFile, ...]
    """Of a closed segment: a start after a crash does not rebuild them where it need not check the batches."""


@value
class Flush:
    """What had not reached the disk at one moment. `sync` touches nothing that the log thread changes."""

    files: FileSystem
    unsynced: tuple[UnsyncedSegment, ...]
    end_offset: int
    """Everything below is durable once `sync` has returned."""
    end_position: int
    end_segment: Segment
    flushed_bytes: int
    directory_changes: int
    directories: tuple[OpenFile, ...]
    """The partition's own where segments were created; also the one around it while the partition is new."""

    def sync(self) -> None:
        """Oldest first, so that what is durable is always a beginning of the log. An OSError is final."""
        for entry in self.unsynced:
            self.files.sync(entry.file.fd)
            for index in entry.indexes:
                self.files.sync(index.fd)
        for directory in self.directories:
            self.files.sync_names(directory.fd)
