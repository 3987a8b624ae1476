"""How a partition loses its oldest segments: to retention, to whoever deletes records, and to the archive.

What is in the archive only still counts as a part of the log. Called by the log's own thread, as `partition_log` is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from headrace.clock import Clock
from headrace.log.archive import manifest as archive
from headrace.log.archive.copying import SegmentCopy
from headrace.log.archive.manifest import ArchivedSegment
from headrace.log.archive.reading import PartitionArchive
from headrace.log.config import LogConfig
from headrace.log.epochs import LeaderEpochs
from headrace.log.errors import OffsetOutOfRange, StorageFailed
from headrace.log.filesystem import FileSystem
from headrace.log.producer_state import ProducerStates
from headrace.log.readable_log import ReadableLog
from headrace.log.reading import floor_segment
from headrace.log.recovery import leftovers, snapshots
from headrace.log.recovery.opening import EventSink
from headrace.log.retention import ExpiredSegment, RetentionReason, RetentionSegment, plan_retention
from headrace.log.segment import Segment


class ShrinkingLog(ReadableLog, ABC):
    def __init__(
        self, directory: str, config: LogConfig, *, files: FileSystem, clock: Clock, on_event: EventSink
    ) -> None:
        super().__init__(directory, config)
        self._on_event = on_event
        self.read_only_reason: str | None = None
        self.producers = ProducerStates(producer_ids_max=config.producer_ids_max)
        self._files = files
        self._clock = clock
        self._epochs = LeaderEpochs(files, directory)
        self._unsynced: list[Segment] = []
        self._directory_changes = 0
        self._retired: list[tuple[int, Segment]] = []

    @abstractmethod
    def _roll(self, *, keeps_old: bool = True) -> Segment:
        """Close the active segment and begin the next; on failure nothing has changed."""

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended: where readers of committed data stop."""
        first_open_offset = self.producers.first_open_offset
        return self.end_offset if first_open_offset is None else max(first_open_offset, self.start_offset)

    def delete_records_before(self, offset: int) -> int:
        """Make offset the start of the log; the new start. Segments that lie below it go."""
        if offset > self.end_offset:
            raise OffsetOutOfRange(offset=offset, start_offset=self.start_offset, end_offset=self.end_offset)
        if offset > self.start_offset:
            self.start_offset = offset
            keep = floor_segment(self._view.base_offsets, offset)
            self._retire(self._view.segments[:keep], self._clock.now_ms())
            self._forget_expired()
        return self.start_offset

    def apply_retention(self, now_ms: int) -> list[ExpiredSegment]:
        """Remove what has outlived its time or the partition's size, and files whose delay is over.

        What is in the archive only counts as well. Closed segments go first: on a full disk they make the room for a
        new active segment.
        """
        self.remove_retired(now_ms)
        segments = self._view.segments
        archived_only = [entry.for_retention() for entry in self.archived_only]
        plan = plan_retention(
            [*archived_only, *(self._retention_segment(segment) for segment in segments)],
            start_offset=self.start_offset,
            now_ms=now_ms,
            config=self.config,
        )
        if not plan.expired:
            return []
        local = zip(plan.expired[len(archived_only) :], segments, strict=False)
        for expired, segment in local:
            if expired.reason is RetentionReason.TIME and not segment.confirms_largest_timestamp():
                self._on_event("time_index_rebuilt", {"path": segment.path})
                return self.apply_retention(now_ms)
        self._drop(len(plan.expired) - plan.rolls_active, archived_only, now_ms)
        if plan.rolls_active and self.read_only_reason is None:
            with suppress(StorageFailed):  # an event reported it, and the next pass tries again
                self._roll(keeps_old=False)
                self._drop(1, (), now_ms)
        return [segment for segment in plan.expired if segment.base_offset < self.start_offset]

    def _drop(self, count: int, archived_only: Sequence[RetentionSegment], now_ms: int) -> None:
        """Let the oldest segments go, the ones that are in the archive only first."""
        kept_archived = archived_only[count:]
        self._retire(self._view.segments[: max(0, count - len(archived_only))], now_ms)
        first_kept = kept_archived[0].base_offset if kept_archived else self._view.segments[0].base_offset
        self.start_offset = max(self.start_offset, first_kept)
        self._forget_expired()

    def _retention_segment(self, segment: Segment) -> RetentionSegment:
        timestamp_ms = segment.largest_timestamp_ms()
        return RetentionSegment(
            base_offset=segment.base_offset,
            size_bytes=segment.size_bytes,
            max_timestamp_ms=timestamp_ms if timestamp_ms >= 0 else self._files.modified_ms(segment.path),
        )

    def _retire(self, segments: tuple[Segment, ...], now_ms: int) -> None:
        """Take the oldest segments out of the log. Their files go later, when no read can be inside any more."""
        if not segments:
            return
        self._replace_segments(self._view.segments[len(segments) :])
        for number, segment in enumerate(segments):
            try:
                self._set_aside(segment, now_ms)
            except OSError as error:
                # It and those behind it stay in the log, until the next pass.
                segment.is_retired = False
                self._replace_segments((*segments[number:], *self._view.segments))
                self._on_event("segment_not_removed", {"path": segment.path, "reason": str(error)})
                break
        self._unsynced = [segment for segment in self._unsynced if not segment.is_retired]
        self._directory_changes += 1

    def _set_aside(self, segment: Segment, now_ms: int) -> None:
        segment.is_retired = True
        segment.change_suffix(leftovers.DELETED_SUFFIX)
        self._opened.pop(segment.base_offset, None)
        self._retired.append((now_ms + self.config.file_delete_delay_ms, segment))

    def remove_retired(self, now_ms: int) -> int:
        """Remove the files of retired segments whose delay is over; how many segments that were."""
        removed = 0
        for entry in self._retired[:]:
            due_ms, segment = entry
            if due_ms > now_ms:
                continue
            try:
                segment.remove()
            except OSError as error:
                self._on_event("segment_not_removed", {"path": segment.path, "reason": str(error)})
                continue
            self._retired.remove(entry)
            removed += 1
        return removed

    # --- the archive ---

    def _find_archived(
        self, partition_archive: PartitionArchive | None, sizes: Mapping[str, int], start_offset: int
    ) -> None:
        self.archive = partition_archive
        if partition_archive is None or archive.LIST_NAME not in sizes:
            return
        partition_archive.load_list(self._files, self.directory)
        if self.config.is_archived:
            self.archived = tuple(
                entry for entry in partition_archive.listed if entry.next_offset > start_offset
            )

    def _first_kept_offset(self) -> int:
        """Where the log begins as far as its segments, here and in the archive, can tell."""
        local_offset = self._view.base_offsets[0]
        return min(local_offset, self.archived[0].base_offset) if self.archived else local_offset

    def segments_to_archive(self) -> list[Segment]:
        """Closed, durable segments without open transactions that the archive does not have yet."""
        if not self.config.is_archived:
            return []
        return archive.plan_uploads(
            self._view.segments,
            self.archived,
            start_offset=self.start_offset,
            below_offset=min(self.durable_offset, self.last_stable_offset),
        )

    def copy_to_archive(
        self, segment: Segment, *, chunk_bytes: int, now_ms: int, should_stop: Callable[[], bool]
    ) -> SegmentCopy:
        """How to copy one of `segments_to_archive`; run it in a thread and hand its result to `add_archived`."""
        assert self.archive is not None
        return SegmentCopy(
            files=self._files,
            directory=self.directory,
            stem=segment.stem,
            snapshot_path=snapshots.snapshot_path(self.directory, segment.next_offset),
            object_stem=archive.object_stem(self.archive.prefix, segment.base_offset),
            topic=self.archive.topic,
            topic_id=self.archive.topic_id,
            partition=self.archive.partition,
            base_offset=segment.base_offset,
            next_offset=segment.next_offset,
            size_bytes=segment.size_bytes,
            max_timestamp_ms=segment.largest_timestamp_ms(),
            aborted_transactions=len(segment.aborted_index()),
            leader_epochs=tuple(
                (epoch.epoch, epoch.start_offset)
                for epoch in self._epochs.starts
                if epoch.start_offset < segment.next_offset
            ),
            chunk_bytes=chunk_bytes,
            now_ms=now_ms,
            should_stop=should_stop,
        )

    def add_archived(self, entries: Sequence[ArchivedSegment]) -> None:
        """The archive has these, and the list on disk says so."""
        if self.config.is_archived:
            self.archived = (*self.archived, *entries)
            self._forget_expired()

    def adopt_archived(self, entries: tuple[ArchivedSegment, ...]) -> None:
        """Take over what the archive says it has, where the list of it was lost: the log begins there again."""
        assert not self.archived
        self.archived = entries
        self.start_offset = min(self.start_offset, entries[0].base_offset)

    def remove_local_copies(self, now_ms: int) -> int:
        """Let go of local segments that are archived and past `local.retention.*`; how many."""
        if not self.archived or self.read_only_reason is not None:
            return 0
        segments = self._view.segments
        count = archive.plan_local_removal(
            [self._retention_segment(segment) for segment in segments],
            archived_end=archive.end_of(self.archived),
            now_ms=now_ms,
            config=self.config,
        )
        self._retire(segments[:count], now_ms)
        return count

    def _forget_expired(self) -> None:
        """What lies below the start no longer counts; its objects go when the list on disk says so, too."""
        if self.archived:
            self.archived = tuple(
                entry
                for entry in self.archived
                if entry.next_offset > self.start_offset and self.config.is_archived
            )
