"""Opening the segments of a partition: after a clean stop by their last headers, after a crash by checking them.

After a clean stop only the last few headers are read. Otherwise every batch from the recovery point on is checked, and
that the segments before it are complete. A torn tail is truncated; with damage the log opens read-only.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.log import checkpoints
from headrace.log.aborted_index import AbortedIndex
from headrace.log.archive.archived_segments import end_of
from headrace.log.archive.log_archive import LogArchive
from headrace.log.checkpoints import LogCheckpoint
from headrace.log.compaction.log_compaction import LogCompaction
from headrace.log.epochs import LeaderEpochs
from headrace.log.errors import InvalidFile
from headrace.log.recovery.checking import check_first, check_from, is_unchanged
from headrace.log.recovery.segment_checker import Recovery, is_lost
from headrace.log.recovery.snapshots import ProducerSnapshots
from headrace.log.segment import Segment
from headrace.log.segment_names import ABORTED_INDEX_SUFFIX, LOG_SUFFIX, segment_bases, segment_name
from headrace.log.segments import Segments


class LogOpening:
    """Opens the segments of a log. Used once."""

    def __init__(
        self,
        segments: Segments,
        epochs: LeaderEpochs,
        archive: LogArchive,
        compaction: LogCompaction,
        snapshots: ProducerSnapshots,
    ) -> None:
        self._segments = segments
        self._folder = segments.folder
        self._epochs = epochs
        self._archive = archive
        self._compaction = compaction
        self._snapshots = snapshots

    def run(self, sizes: Mapping[str, int], known: LogCheckpoint) -> None:
        """Open the files of the folder, given by name and size."""
        recovery_offset, start_offset = known.recovery_offset, known.start_offset
        self._archive.load(sizes, start_offset or 0)
        first_offset = max(start_offset or 0, end_of(self._archive.entries))
        lost = self._lost_offsets()
        found = self._find(sizes)
        if not found:
            if recovery_offset <= first_offset or is_lost(lost, first_offset, recovery_offset):
                self._start_empty(max(first_offset, recovery_offset))
                self._segments.start_offset = max(start_offset or 0, self._archive.first_offset)
                return
            found = [self._segments.create(first_offset)]
        self._epochs.load()
        recovery = Recovery(
            on_event=self._folder.on_event,
            epochs=self._epochs.starts,
            covered_offset=recovery_offset,
            lost=lost,
        )
        # Without its epochs the log has to read its last batches to know the newest one.
        is_clean = (
            known.was_clean and bool(self._epochs.starts) and is_unchanged(recovery, found, known.clean_stop)
        )
        if not is_clean:
            recovery.cleaned_offset = self._compaction.offsets()[1]
            found = check_from(recovery, found, recovery_offset)
            if start_offset is not None:
                check_first(recovery, found, first_offset, known.clean_stop)
        self._segments.load(found)
        first_kept = min([self._archive.first_offset, *(damage.first_offset for damage in recovery.damages)])
        self._segments.start_offset = min(max(start_offset or 0, first_kept), self._segments.end_offset)
        self._snapshots.restore(sizes)
        self._folder.damages = tuple(recovery.damages)
        if not is_clean:
            self._accept(recovery, recovery_offset)
        # A broker may have thousands of partitions and use few of them: files are opened on demand.
        for segment in found:
            if not segment.damages:
                segment.release()

    def _lost_offsets(self) -> list[tuple[int, int]]:
        path = self._folder.file_path(checkpoints.LOST_OFFSETS_NAME)
        try:
            return checkpoints.read_lost_offsets(self._folder.files, path)
        except InvalidFile as error:
            self._folder.on_event("lost_offsets_ignored", {"path": path, "reason": str(error)})
            return []

    def _find(self, sizes: Mapping[str, int]) -> list[Segment]:
        bases = segment_bases(sizes)
        following = [*bases[1:], *bases[-1:]]
        segments = [
            self._segments.make(
                base, size_bytes=sizes[segment_name(base) + LOG_SUFFIX], next_offset=next_offset
            )
            for base, next_offset in zip(bases, following, strict=True)
        ]
        for segment in segments:
            if segment_name(segment.base_offset) + ABORTED_INDEX_SUFFIX not in sizes:
                segment.use_aborted_index(AbortedIndex())
        return segments

    def _start_empty(self, start_offset: int) -> None:
        self._folder.is_new = True
        self._epochs.start_first(start_offset)
        self._segments.load([self._segments.create(start_offset)])
        self._segments.active.release()

    def _accept(self, recovery: Recovery, recovery_offset: int) -> None:
        end_offset = self._segments.end_offset
        self._epochs.start_next(end_offset, epoch_seen=recovery.last_epoch)
        if end_offset != recovery_offset or recovery.bytes_truncated:
            self._sync_recovered(recovery_offset)
        if recovery.damages:
            first = recovery.damages[0]
            self._folder.read_only_reason = (
                f"{first.path} is damaged at byte {first.position}: {first.reason}"
            )

    def _sync_recovered(self, recovery_offset: int) -> None:
        """After a crash, batches may be in the page cache only."""
        files = self._folder.files
        for segment in self._segments.view.from_offset(recovery_offset):
            files.sync(segment.file().fd)
        files.sync_directory(self._folder.path)
