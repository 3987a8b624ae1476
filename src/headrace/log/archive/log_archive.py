"""The archive as a part of one log: which segments count as archived, which to copy, which local copies to remove.

A segment that is only in the archive is still a part of the log. Called by the log's own thread; readers of any thread
use `entries`, which is replaced and never changed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from headrace.log.archive.archived_segments import (
    LIST_NAME,
    ArchivedSegment,
    end_of,
    entries_before,
    plan_local_removal,
    plan_uploads,
)
from headrace.log.archive.copying import SegmentCopy
from headrace.log.archive.manifest import Manifest
from headrace.log.archive.object_names import object_stem
from headrace.log.archive.partition_archive import PartitionArchive
from headrace.log.epochs import LeaderEpochs
from headrace.log.producer_state import ProducerStates
from headrace.log.recovery.snapshots import snapshot_path
from headrace.log.retention import RetentionSegment
from headrace.log.retired import RetiredSegments
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from headrace.log.transactions import last_stable_offset


class LogArchive:
    def __init__(
        self,
        segments: Segments,
        partition_archive: PartitionArchive | None,
        producers: ProducerStates,
        epochs: LeaderEpochs,
        retired: RetiredSegments,
    ) -> None:
        self._segments = segments
        self._folder = segments.folder
        self._producers = producers
        self._epochs = epochs
        self._retired = retired
        self.partition_archive = partition_archive
        self.entries: tuple[ArchivedSegment, ...] = ()
        """Archived segments that are a part of the log, oldest first; the newest of them may be local as well."""

    @property
    def archived_only(self) -> tuple[ArchivedSegment, ...]:
        """Archived segments without a local copy."""
        return entries_before(self.entries, self._segments.base_offsets[0]) if self.entries else ()

    @property
    def has_list(self) -> bool:
        """Whether the folder has a list of archived segments: then the archive may have objects of the partition."""
        return self.partition_archive is not None and self.partition_archive.has_list

    @property
    def first_offset(self) -> int:
        """The first offset of the segments, local and archived."""
        local_offset = self._segments.base_offsets[0]
        return min(local_offset, self.entries[0].base_offset) if self.entries else local_offset

    def load(self, names: Container[str], start_offset: int) -> None:
        """Read the list of archived segments, if the folder has one."""
        if self.partition_archive is None or LIST_NAME not in names:
            return
        self.partition_archive.load_list(self._folder.files, self._folder.path)
        if self._folder.config.is_archived:
            self.entries = tuple(
                entry for entry in self.partition_archive.listed if entry.next_offset > start_offset
            )

    def segments_to_copy(self) -> list[Segment]:
        """Closed, durable segments without open transactions that are not archived yet."""
        if not self._folder.config.is_archived:
            return []
        segments = self._segments
        return plan_uploads(
            segments.view.segments,
            self.entries,
            start_offset=segments.start_offset,
            below_offset=min(segments.durable_offset, last_stable_offset(segments, self._producers)),
        )

    def copy(
        self, segment: Segment, *, chunk_bytes: int, now_ms: int, should_stop: Callable[[], bool]
    ) -> SegmentCopy:
        """How to copy one of `segments_to_copy`: run it in a thread and pass its result to `add`."""
        own = self.partition_archive
        assert own is not None
        return SegmentCopy(
            files=self._folder.files,
            directory=self._folder.path,
            stem=segment.stem,
            snapshot_path=snapshot_path(self._folder.path, segment.next_offset),
            object_stem=object_stem(own.prefix, segment.base_offset),
            size_bytes=segment.size_bytes,
            manifest=Manifest(
                topic=own.topic,
                topic_id=own.topic_id,
                partition=own.partition,
                base_offset=segment.base_offset,
                next_offset=segment.next_offset,
                max_timestamp_ms=segment.largest_timestamp_ms(),
                aborted_transactions=len(segment.aborted_index()),
                leader_epochs=tuple(
                    (epoch.epoch, epoch.start_offset)
                    for epoch in self._epochs.starts
                    if epoch.start_offset < segment.next_offset
                ),
                chunk_bytes=chunk_bytes,
                archived_ms=now_ms,
            ),
            should_stop=should_stop,
        )

    def add(self, entries: Sequence[ArchivedSegment]) -> None:
        """These segments are archived, and the list on disk has them."""
        if self._folder.config.is_archived:
            self.entries = (*self.entries, *entries)
            self.drop_expired()

    def adopt(self, entries: tuple[ArchivedSegment, ...]) -> None:
        """Use what the archive has after the list of it was lost: the log starts there again."""
        assert not self.entries
        self.entries = entries
        self._segments.start_offset = min(self._segments.start_offset, entries[0].base_offset)

    def remove_local_copies(self, now_ms: int) -> int:
        """Retire local segments that are archived and past `local.retention.*`; the number of them."""
        if not self.entries or self._folder.read_only_reason is not None:
            return 0
        count = plan_local_removal(
            [RetentionSegment.of(segment) for segment in self._segments.view.segments],
            archived_end=end_of(self.entries),
            now_ms=now_ms,
            config=self._folder.config,
        )
        self._retired.retire_oldest(count, now_ms)
        return count

    def drop_expired(self) -> None:
        """Drop entries below the start of the log; their objects are deleted once the list on disk has dropped them."""
        if self.entries:
            self.entries = tuple(
                entry
                for entry in self.entries
                if entry.next_offset > self._segments.start_offset and self._folder.config.is_archived
            )

    def reconfigure(self) -> None:
        """After a change of the settings: a log that is no longer archived starts at its first local segment."""
        if self.entries and not self._folder.config.is_archived:
            self._segments.start_offset = self._segments.local_start_offset
            self.drop_expired()
