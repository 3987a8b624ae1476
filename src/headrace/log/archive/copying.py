"""Copying one segment to the archive, so that its local copy may be removed: put, read back, compare, manifest.

Runs in a thread, on files that are closed and synced. Every step can be repeated: an interrupted copy is overwritten by
the next one.
"""

from __future__ import annotations

from collections.abc import Callable

import google_crc32c
from msgspec import Struct
from msgspec.structs import replace

from headrace.log.archive.archived_segments import ArchivedSegment, entry_of
from headrace.log.archive.manifest import FileSum, Manifest, encode_manifest
from headrace.log.archive.object_names import MANIFEST_SUFFIX
from headrace.log.archive.partition_archive import aborted_path
from headrace.log.archive.store import ArchiveStore
from headrace.log.errors import LogError, ObjectMissing
from headrace.log.filesystem import FileSystem
from headrace.log.recovery.snapshots import SNAPSHOT_SUFFIX
from headrace.log.segment_names import (
    ABORTED_INDEX_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
)
from headrace.records.batch import crc32c


class CopyDiffers(LogError):
    """The archive returns other bytes than were written; the copy does not count."""


class Interrupted(Exception):
    """The broker stops; the copy is made after its next start."""


class SegmentCopy(Struct, frozen=True, kw_only=True):
    """One segment to copy, and the content of its manifest."""

    files: FileSystem
    directory: str
    stem: str
    """Path of the local files without suffix."""
    snapshot_path: str
    """Producer snapshot as of the end of the segment; it may be missing."""
    object_stem: str
    size_bytes: int
    manifest: Manifest
    """Without the files, which are known once they are read."""
    should_stop: Callable[[], bool]

    def run(self, store: ArchiveStore) -> ArchivedSegment:
        """Copy it; returns once the archive has it. FileNotFoundError if retention has removed it since."""
        sums = {suffix: self._sum(path) for suffix, path in self._paths().items()}
        if sums[LOG_SUFFIX].size_bytes != self.size_bytes:
            raise CopyDiffers(
                f"{self.stem}{LOG_SUFFIX} has {sums[LOG_SUFFIX].size_bytes} bytes and should have {self.size_bytes}",
                hint="something else writes into the data folder; check it with `headrace log verify`",
            )
        for suffix, path in self._paths().items():
            self._check_stop()
            store.put_file(self.object_stem + suffix, path)
        for suffix, expected in sums.items():
            self._compare(store, self.object_stem + suffix, expected)
        written_ms = self.files.modified_ms(self.stem + LOG_SUFFIX)
        manifest = replace(self.manifest, files=sums, written_ms=written_ms)
        content = encode_manifest(manifest)
        name = self.object_stem + MANIFEST_SUFFIX
        store.put(name, content)
        if store.read(name) != content:
            raise CopyDiffers(f"{name} reads back differently from the archive {store.address}")
        if manifest.aborted_transactions:
            kept = self.files.read_whole(self.stem + ABORTED_INDEX_SUFFIX)
            self.files.write_whole(aborted_path(self.directory, manifest.base_offset), kept)
        return entry_of(manifest, crc32c(content))

    def _paths(self) -> dict[str, str]:
        """Local files by suffix. The last two exist only if they have content."""
        paths = {
            suffix: self.stem + suffix for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
        }
        for suffix, path in (
            (ABORTED_INDEX_SUFFIX, self.stem + ABORTED_INDEX_SUFFIX),
            (SNAPSHOT_SUFFIX, self.snapshot_path),
        ):
            try:
                self.files.size(path)
            except FileNotFoundError:
                continue
            paths[suffix] = path
        return paths

    def _sum(self, path: str) -> FileSum:
        size_bytes = self.files.size(path)
        fd = self.files.open(path)
        try:
            return self._sum_of(lambda position, count: self.files.read(fd, count, position), size_bytes)
        finally:
            self.files.close(fd)

    def _sum_of(self, read: Callable[[int, int], bytes], size_bytes: int) -> FileSum:
        whole, got_bytes, chunks = 0, 0, []
        chunk_bytes = self.manifest.chunk_bytes
        for position in range(0, size_bytes, chunk_bytes):
            self._check_stop()
            chunk = read(position, min(chunk_bytes, size_bytes - position))
            chunks.append(crc32c(chunk))
            whole = google_crc32c.extend(whole, chunk)
            got_bytes += len(chunk)
        return FileSum(size_bytes=got_bytes, crc32c=whole, chunk_crcs=tuple(chunks))

    def _compare(self, store: ArchiveStore, name: str, expected: FileSum) -> None:
        try:
            found = self._sum_of(
                lambda position, count: store.read(name, position, count), expected.size_bytes
            )
        except ObjectMissing:
            found = None
        if found != expected:
            raise CopyDiffers(
                f"{name} reads back differently from the archive {store.address}",
                hint="the copy is retried; if this repeats, check the archive",
            )

    def _check_stop(self) -> None:
        if self.should_stop():
            raise Interrupted
