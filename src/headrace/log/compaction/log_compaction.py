"""Compaction as a part of one log: when a pass is due, and how its segments replace the old ones.

Called by the log's own thread. `planning` decides, `cleaner` selects what to keep, `compaction_pass` reads and writes.
"""

from __future__ import annotations

from headrace.log import checkpoints
from headrace.log.compaction.cleaner import Compacted, Replacement
from headrace.log.compaction.compaction_pass import CompactionPass, cleaned_segment_of, compaction_segment
from headrace.log.compaction.planning import plan_compaction
from headrace.log.errors import InvalidFile
from headrace.log.filesystem import OpenFile
from headrace.log.flush import LogFlusher
from headrace.log.folder import PartitionFolder
from headrace.log.producer_state import ProducerStates
from headrace.log.recovery.leftovers import SWAP_SUFFIX
from headrace.log.retired import RetiredSegments
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from headrace.log.transactions import last_stable_offset


class LogCompaction:
    def __init__(
        self,
        folder: PartitionFolder,
        segments: Segments,
        *,
        producers: ProducerStates,
        flusher: LogFlusher,
        retired: RetiredSegments,
    ) -> None:
        self._folder = folder
        self._segments = segments
        self._producers = producers
        self._flusher = flusher
        self._retired = retired
        self._offset_path = folder.file_path(checkpoints.CLEANER_OFFSET_NAME)

    def plan(self, now_ms: int) -> CompactionPass | None:
        """A pass that is due: run it in a thread and hand its result to `finish`."""
        folder, segments = self._folder, self._segments
        if not folder.config.is_compacted or folder.read_only_reason is not None:
            return None
        local = segments.view.segments
        plan = plan_compaction(
            [compaction_segment(segment) for segment in local],
            first_dirty_offset=self.offsets()[0],
            start_offset=segments.start_offset,
            cleanable_before_offset=min(
                segments.durable_offset, last_stable_offset(segments, self._producers)
            ),
            now_ms=now_ms,
            config=folder.config,
        )
        if plan is None:
            return None
        return CompactionPass(
            files=folder.files,
            directory=folder.path,
            config=folder.config,
            plan=plan,
            segments={segment.base_offset: segment for segment in local},
            last_offset_of_producers=self._producers.last_offsets(),
            aborted=tuple(entry for segment in local for entry in segment.aborted_index().entries),
            now_ms=now_ms,
            should_stop=lambda: folder.read_only_reason is not None,
        )

    def finish(self, compacted: Compacted) -> None:
        """Replace segments by the cleaned ones that were made from them, oldest first."""
        folder = self._folder
        cleaned, reach = self.offsets()
        dirty = compacted.first_dirty_offset
        if compacted.replacements and dirty > reach and folder.read_only_reason is None:
            # After a crash during the swaps, recovery must know up to where offsets may be missing without damage.
            checkpoints.write_cleaner_offsets(folder.files, self._offset_path, cleaned, reach=dirty)
        for replacement in compacted.replacements:
            sources = self._sources_of(replacement)
            if sources is None or folder.read_only_reason is not None:
                # Retention has removed a source since, or the disk failed.
                replacement.writer.abandon()
                continue
            try:
                directory = folder.open()
            except OSError as error:
                replacement.writer.abandon()
                raise folder.storage_failed(f"compaction of {folder.path} failed: {error}") from error
            self._swap(cleaned_segment_of(replacement), sources, directory)
        if folder.read_only_reason is None:
            checkpoints.write_cleaner_offsets(folder.files, self._offset_path, dirty, reach=max(dirty, reach))

    def offsets(self) -> tuple[int, int]:
        """(offset up to which the log is compacted, offset up to which segments may have been replaced)."""
        try:
            return checkpoints.read_cleaner_offsets(self._folder.files, self._offset_path)
        except InvalidFile as error:
            self._folder.on_event("cleaner_offset_ignored", {"path": self._offset_path, "reason": str(error)})
            return 0, 0

    def _sources_of(self, replacement: Replacement) -> tuple[Segment, ...] | None:
        """The segments that a replacement was made from, if all of them are still in the log."""
        if self._folder.config.is_archived:
            return None  # the topic is no longer compacted, and these may be archived already
        bases = {source.base_offset for source in replacement.sources}
        sources = tuple(
            segment for segment in self._segments.view.segments[:-1] if segment.base_offset in bases
        )
        return sources if len(sources) == len(bases) else None

    def _swap(self, cleaned: Segment, sources: tuple[Segment, ...], directory: OpenFile) -> None:
        """Once the cleaned log has the suffix `.swap`, it is final: after a crash the next start finishes the swap."""
        folder, local = self._folder, self._segments.view.segments
        cleaned.extent = (sources[-1].next_offset, cleaned.size_bytes)
        first = local.index(sources[0])
        try:
            cleaned.change_suffix(SWAP_SUFFIX)
            folder.files.sync_names(directory.fd)
            self._segments.replace((*local[:first], cleaned, *local[first + len(sources) :]))
            self._flusher.forget(sources)
            for source in sources:
                self._retired.retire(source, folder.clock.now_ms())
            cleaned.change_suffix("")
            folder.files.sync_names(directory.fd)
        except OSError as error:
            folder.become_read_only(f"swapping in compacted segments failed: {error}")
            raise folder.storage_failed(f"compaction of {folder.path} failed: {error}") from error
        self._segments.keep_open(cleaned)
