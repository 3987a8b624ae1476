"""A compaction pass over the files of one log: `cleaner` selects what to keep, this reads and writes for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from headrace.log.aborted_index import AbortedTransaction
from headrace.log.compaction import cleaner
from headrace.log.compaction.planning import CompactionPlan, CompactionSegment
from headrace.log.config import LogConfig
from headrace.log.filesystem import FileSystem
from headrace.log.index import NO_TIMESTAMP, OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from headrace.log.recovery.leftovers import CLEANED_SUFFIX
from headrace.log.segment import Segment
from headrace.log.segment_names import ABORTED_INDEX_SUFFIX, segment_path
from headrace.records.batch import HEADER_BYTES, BatchHeader


class CompactionPass(Struct, frozen=True, kw_only=True):
    """One pass. `run` may run in any thread; it changes no segment of the log."""

    files: FileSystem
    directory: str
    config: LogConfig
    plan: CompactionPlan
    segments: Mapping[int, Segment]
    last_offset_of_producers: Mapping[int, int]
    aborted: tuple[AbortedTransaction, ...]
    now_ms: int
    should_stop: Callable[[], bool]

    def run(self, *, offset_map_entries_max: int = cleaner.OFFSET_MAP_ENTRIES_MAX) -> cleaner.Compacted:
        """Write the cleaned segments beside the old ones; after any error they are removed again."""
        return cleaner.run(
            self.plan,
            config=self.config,
            read_batches=self._read_batches,
            open_cleaned=self._open_cleaned,
            last_offset_of_producers=self.last_offset_of_producers,
            now_ms=self.now_ms,
            aborted=self.aborted,
            offset_map_entries_max=offset_map_entries_max,
            should_stop=self.should_stop,
        )

    def _read_batches(self, source: CompactionSegment) -> Iterator[bytes]:
        return self.segments[source.base_offset].batches()

    def _open_cleaned(self, base_offset: int) -> CleanedSegment:
        return CleanedSegment(
            self.files,
            self.directory,
            base_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            created_ms=self.now_ms,
        )


class CleanedSegment:
    """A segment under the suffix `.cleaned`, written from start to end."""

    def __init__(
        self,
        files: FileSystem,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        created_ms: int,
    ) -> None:
        self._files = files
        self.segment = Segment(
            files=files,
            stem=segment_path(directory, base_offset),
            base_offset=base_offset,
            size_bytes=0,
            next_offset=base_offset,
            index_interval_bytes=index_interval_bytes,
            created_ms=created_ms,
            suffix=CLEANED_SUFFIX,
        )
        self.segment.create()

    def append(self, batch: bytes, header: BatchHeader) -> None:
        self.segment.append(
            (b"", batch), len(batch), header.last_offset, header.base_timestamp_ms, header.max_timestamp_ms
        )

    def keep_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        for entry in aborted:
            self.segment.aborted_index().append(entry)

    def finish(self) -> None:
        self.segment.write_indexes(is_final=True)
        self.segment.write_aborted_index()
        for path in self.segment.paths:
            if path.removesuffix(CLEANED_SUFFIX).endswith(ABORTED_INDEX_SUFFIX):
                continue
            fd = self._files.open(path)
            try:
                self._files.sync(fd)
            finally:
                self._files.close(fd)
        self.segment.synced_bytes = self.segment.size_bytes

    def abandon(self) -> None:
        self.segment.remove()


def cleaned_segment_of(replacement: cleaner.Replacement) -> Segment:
    """The segment that the writer of a replacement has written."""
    assert isinstance(replacement.writer, CleanedSegment)
    return replacement.writer.segment


def compaction_segment(segment: Segment) -> CompactionSegment:
    """What a plan needs to know about a segment."""
    first_timestamp_ms = NO_TIMESTAMP
    if segment.size_bytes:
        for _, header in segment.walk(0, chunk_bytes=HEADER_BYTES):
            first_timestamp_ms = header.max_timestamp_ms
            break
    return CompactionSegment(
        base_offset=segment.base_offset,
        path=Path(segment.path),
        size_bytes=segment.size_bytes,
        index_bytes=len(segment.offset_index()) * OFFSET_ENTRY_BYTES,
        time_index_bytes=len(segment.time_index()) * TIME_ENTRY_BYTES,
        first_timestamp_ms=first_timestamp_ms,
        max_timestamp_ms=segment.largest_timestamp_ms(),
    )
