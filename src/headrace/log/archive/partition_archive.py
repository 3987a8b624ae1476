"""The archive of one partition: its archived segments, ready to be read, and the list of them in its folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TypeVar

from headrace.log.aborted_index import AbortedIndex, AbortedTransaction
from headrace.log.archive.archived_files import Archive, ArchivedFiles
from headrace.log.archive.archived_segments import (
    LIST_NAME,
    ArchivedSegment,
    decode_list,
    encode_list,
    entries_from,
)
from headrace.log.archive.object_names import object_prefix, object_stem
from headrace.log.errors import InvalidFile, LogError
from headrace.log.filesystem import FileSystem
from headrace.log.segment import Segment

Kept = TypeVar("Kept")

# Archived segments of one partition that are kept ready: an index and a manifest in memory each.
SEGMENTS_READY_MAX = 8
# Lists of aborted transactions stay local when their segment is only in the archive: they are small, and read by
# threads that must not wait.
ABORTED_SUFFIX = ".txnindex.archived"


class PartitionArchive:
    """The archive of one partition: its objects, and the list of them in the partition's folder."""

    def __init__(self, shared: Archive, *, topic: str, topic_id: object, partition: int) -> None:
        self.shared = shared
        self.topic = topic
        self.topic_id = str(topic_id)
        self.partition = partition
        self.prefix = object_prefix(topic_id, partition)
        self.listed: tuple[ArchivedSegment, ...] = ()
        """The list on disk: objects of these segments are never deleted."""
        self.has_list = False
        self._ready: dict[int, Segment] = {}
        self._aborted: dict[int, AbortedIndex] = {}

    # --- the list, in the partition's folder ---

    def load_list(self, files: FileSystem, directory: str) -> None:
        path = os.path.join(directory, LIST_NAME)
        try:
            self.listed = decode_list(files.read_whole(path))
        except InvalidFile as error:
            raise LogError(
                f"{path} is damaged: {error}",
                hint="move this file away: the broker rebuilds it from the manifests in the archive",
            ) from error
        self.has_list = True

    def write_list(self, files: FileSystem, directory: str, entries: tuple[ArchivedSegment, ...]) -> None:
        files.write_whole(os.path.join(directory, LIST_NAME), encode_list(entries))
        self.listed = entries
        self.has_list = True

    def remove_list(self, files: FileSystem, directory: str) -> None:
        """The partition has nothing in the archive and is no longer archived."""
        assert not self.listed
        files.remove(os.path.join(directory, LIST_NAME))
        self.has_list = False

    # --- reading ---

    def segments_from(
        self, archived: tuple[ArchivedSegment, ...], offset: int, *, below_offset: int
    ) -> Iterator[Segment]:
        """The segments that hold offset and what follows it, up to the first local one."""
        for entry in entries_from(archived, offset):
            if entry.base_offset >= below_offset:
                return
            yield self.segment(entry)

    def segment(self, entry: ArchivedSegment) -> Segment:
        found = self._ready.get(entry.base_offset)
        if found is not None:
            return found
        stem = object_stem(self.prefix, entry.base_offset)
        segment = Segment(
            files=ArchivedFiles(self.shared, stem, entry.manifest_crc32c),
            stem=stem,
            base_offset=entry.base_offset,
            size_bytes=entry.size_bytes,
            next_offset=entry.next_offset,
            created_ms=entry.written_ms,
        )
        _remember(self._ready, entry.base_offset, segment)
        return segment

    def aborted(
        self, files: FileSystem, directory: str, entry: ArchivedSegment
    ) -> Sequence[AbortedTransaction]:
        """The aborted transactions of a segment, from the local copy of their list."""
        if not entry.aborted_transactions:
            return ()
        known = self._aborted.get(entry.base_offset)
        if known is None:
            path = aborted_path(directory, entry.base_offset)
            known = AbortedIndex.decode(files.read_whole(path), path)
            _remember(self._aborted, entry.base_offset, known)
        return known.entries


def aborted_path(directory: str, base_offset: int) -> str:
    return os.path.join(directory, f"{base_offset:020d}{ABORTED_SUFFIX}")


def _remember(known: dict[int, Kept], base_offset: int, kept: Kept) -> None:
    """Add to a small dictionary that other threads add to as well; the oldest entry is dropped."""
    while len(known) >= SEGMENTS_READY_MAX:
        try:
            known.pop(next(iter(known)))
        except (KeyError, RuntimeError, StopIteration):
            break
    known[base_offset] = kept
