"""Archived segments as segments: the code that reads local files reads these too, piece by checked piece.

Only threads that may wait come here. A piece is verified when it arrives from the archive and then kept in the cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn, TypeVar

from headrace.log.aborted_index import AbortedIndex, AbortedTransaction
from headrace.log.archive import manifest as archive
from headrace.log.archive.cache import ArchiveCache
from headrace.log.archive.manifest import ArchivedSegment, FileSum, InvalidArchiveList, Manifest
from headrace.log.archive.store import ArchiveStore, ArchiveUnreachable, ObjectMissing
from headrace.log.errors import CorruptSegment, LogError, WouldBlock
from headrace.log.filesystem import Buffer, FileSystem
from headrace.log.segment import LOG_SUFFIX, Segment
from headrace.records.batch import crc32c

Kept = TypeVar("Kept")

# Archived segments of one partition that are held ready: an index and a manifest in memory each.
SEGMENTS_READY_MAX = 8


class CorruptArchive(LogError):
    """An object of the archive is missing or not what was put there."""

    def __init__(self, *, name: str, address: str, reason: str) -> None:
        super().__init__(
            f"{name} in the archive {address} is damaged: {reason}",
            hint="restore this object from a copy; or give its records up with DeleteRecords",
        )
        self.name = name


class DamagedArchiveList(LogError):
    """A partition's list of its archived segments can't be read; guessing could cost what is in the archive."""


class Archive:
    """The archive of a broker, as its readers see it. Without a store every read says what is missing."""

    def __init__(
        self,
        store: ArchiveStore | None,
        cache: ArchiveCache,
        *,
        report: Callable[[CorruptArchive], None] = lambda error: None,
    ) -> None:
        self._store = store
        self.cache = cache
        self.report = report
        """Called with damage that a reader met."""

    @property
    def is_configured(self) -> bool:
        return self._store is not None

    @property
    def store(self) -> ArchiveStore:
        if self._store is None:
            raise ArchiveUnreachable(
                "these records are in an archive, and the broker was started without its address",
                hint="start the broker with archive_address",
            )
        return self._store

    def read(self, name: str, position: int, count: int) -> bytes:
        try:
            return self.store.read(name, position, count)
        except ObjectMissing:
            raise self.corrupt(name, "it is missing") from None

    def corrupt(self, name: str, reason: str) -> CorruptArchive:
        return CorruptArchive(name=name, address=self.store.address, reason=reason)


class PartitionArchive:
    """The archive of one partition: where its objects are, and its list of what is there."""

    def __init__(self, shared: Archive, *, topic: str, topic_id: object, partition: int) -> None:
        self.shared = shared
        self.topic = topic
        self.topic_id = str(topic_id)
        self.partition = partition
        self.prefix = archive.object_prefix(topic_id, partition)
        self.listed: tuple[ArchivedSegment, ...] = ()
        """What the list on disk says: no object of these is ever deleted."""
        self.has_list = False
        self._ready: dict[int, Segment] = {}
        self._aborted: dict[int, AbortedIndex] = {}

    # --- the list, in the partition's folder ---

    def load_list(self, files: FileSystem, directory: str) -> None:
        path = os.path.join(directory, archive.LIST_NAME)
        try:
            self.listed = archive.decode_list(files.read_whole(path))
        except InvalidArchiveList as error:
            raise DamagedArchiveList(
                f"{path} is damaged: {error}",
                hint="move this file away: the broker makes it again from the manifests in the archive",
            ) from error
        self.has_list = True

    def write_list(self, files: FileSystem, directory: str, entries: tuple[ArchivedSegment, ...]) -> None:
        files.write_whole(os.path.join(directory, archive.LIST_NAME), archive.encode_list(entries))
        self.listed = entries
        self.has_list = True

    def remove_list(self, files: FileSystem, directory: str) -> None:
        """Nothing of the partition is in the archive, and nothing is meant to be."""
        assert not self.listed
        files.remove(os.path.join(directory, archive.LIST_NAME))
        self.has_list = False

    # --- reading ---

    def segments_from(
        self, archived: tuple[ArchivedSegment, ...], offset: int, *, below_offset: int
    ) -> Iterator[Segment]:
        """The segments that hold offset and what follows it, up to the first that is there locally."""
        for entry in archive.entries_from(archived, offset):
            if entry.base_offset >= below_offset:
                return
            yield self.segment(entry)

    def segment(self, entry: ArchivedSegment) -> Segment:
        found = self._ready.get(entry.base_offset)
        if found is not None:
            return found
        stem = archive.object_stem(self.prefix, entry.base_offset)
        segment = Segment(
            files=ArchivedFiles(self.shared, stem, entry.manifest_crc32c),
            stem=stem,
            base_offset=entry.base_offset,
            size_bytes=entry.size_bytes,
            next_offset=entry.next_offset,
            index_interval_bytes=4096,
            created_ms=entry.written_ms,
        )
        _remember(self._ready, entry.base_offset, segment)
        return segment

    def aborted(
        self, files: FileSystem, directory: str, entry: ArchivedSegment
    ) -> Sequence[AbortedTransaction]:
        """The aborted transactions of a segment, from the copy of their list that stayed."""
        if not entry.aborted_transactions:
            return ()
        known = self._aborted.get(entry.base_offset)
        if known is None:
            path = aborted_path(directory, entry.base_offset)
            known = AbortedIndex.decode(files.read_whole(path))
            if known is None:
                raise CorruptSegment(path=path, position=0, reason="it is no list of aborted transactions")
            _remember(self._aborted, entry.base_offset, known)
        return known.entries


def aborted_path(directory: str, base_offset: int) -> str:
    return os.path.join(directory, f"{base_offset:020d}{archive.ABORTED_SUFFIX}")


def _remember(known: dict[int, Kept], base_offset: int, kept: Kept) -> None:
    """Add to a small dictionary that other threads add to as well; the oldest entry makes room."""
    while len(known) >= SEGMENTS_READY_MAX:
        try:
            known.pop(next(iter(known)))
        except (KeyError, RuntimeError, StopIteration):
            break
    known[base_offset] = kept


class ArchivedFiles:
    """The files of one archived segment, as a file system that can only be read."""

    def __init__(self, shared: Archive, stem: str, manifest_crc32c: int) -> None:
        self._shared = shared
        self._stem = stem
        self._manifest_crc32c = manifest_crc32c
        self._manifest: Manifest | None = None

    def manifest(self) -> Manifest:
        if self._manifest is None:
            name = self._stem + archive.MANIFEST_SUFFIX
            try:
                content = self._shared.store.read(name)
            except ObjectMissing:
                raise self._shared.corrupt(name, "it is missing") from None
            if crc32c(content) != self._manifest_crc32c:
                raise self._shared.corrupt(name, "its checksum is not the one that it was written with")
            try:
                self._manifest = archive.decode_manifest(content)
            except InvalidArchiveList as error:
                raise self._shared.corrupt(name, str(error)) from None
        return self._manifest

    def _sum(self, path: str) -> FileSum:
        found = self.manifest().files.get(path.removeprefix(self._stem))
        if found is None:
            raise FileNotFoundError(path)
        return found

    def open(self, path: str) -> int:
        self._sum(path)
        return 0

    def close(self, fd: int) -> None:
        """There is nothing to close."""

    def read(self, fd: int, count: int, position: int) -> bytes:
        """From the log, the one file that is read in parts."""
        name = self._stem + LOG_SUFFIX
        chunk_bytes = self.manifest().chunk_bytes
        end = min(position + count, self._sum(name).size_bytes)
        parts: list[bytes] = []
        while position < end:
            number, at = divmod(position, chunk_bytes)
            part = self._chunk(name, number, at, min(end - position, chunk_bytes - at))
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_nowait(self, fd: int, count: int, position: int) -> Buffer:
        raise WouldBlock

    def _chunk(self, name: str, number: int, position: int, count: int) -> bytes:
        """Part of one chunk; never empty."""
        manifest, of_file = self.manifest(), self._sum(name)
        start = number * manifest.chunk_bytes
        size_bytes = min(manifest.chunk_bytes, of_file.size_bytes - start)

        def load() -> bytes:
            content = self._shared.read(name, start, size_bytes)
            if len(content) != size_bytes or crc32c(content) != of_file.chunk_crcs[number]:
                raise self._shared.corrupt(name, f"the checksum of {size_bytes} bytes at {start} differs")
            return content

        part = self._shared.cache.read(f"{name}#{number}", position, count, load)
        if len(part) != count:
            # Somebody cut a file of the cache; the archive still has it.
            return load()[position : position + count]
        return part

    def size(self, path: str) -> int:
        return self._sum(path).size_bytes

    def read_whole(self, path: str) -> bytes:
        """An index, which is only a shortcut: a damaged one is reported and taken as missing."""
        size_bytes = self._sum(path).size_bytes
        try:
            return b"".join(
                self._chunk(path, number, 0, min(size_bytes - start, self.manifest().chunk_bytes))
                for number, start in enumerate(range(0, size_bytes, self.manifest().chunk_bytes))
            )
        except CorruptArchive as error:
            self._shared.report(error)
            return b""

    def modified_ms(self, path: str) -> int:
        return self.manifest().written_ms

    # What changes something is never asked of an archived segment.

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError(f"{self._stem} is in the archive and can't be changed")

    create = open_directory = write = truncate = sync = sync_names = sync_directory = rename = remove = (
        _refuse
    )
    remove_directory = make_directory = list_directory = write_whole = _refuse
