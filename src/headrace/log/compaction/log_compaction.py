"""Compaction as a part of one log: when a pass is due, and how its segments replace the old ones.

Called by the log's own thread. `planning` decides when, `cleaner` reads and writes.
"""

from __future__ import annotations

from msgspec.structs import asdict

from headrace.log import checkpoints
from headrace.log.compaction.cleaner import Compacted, CompactionPass
from headrace.log.compaction.planning import CompactionSegment, plan_compaction
from headrace.log.errors import InvalidFile
from headrace.log.filesystem import OpenFile
from headrace.log.producer_state import ProducerStates
from headrace.log.recovery.leftovers import SWAP_SUFFIX
from headrace.log.retired import RetiredSegments
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from headrace.log.transactions import last_stable_offset


class LogCompaction:
    def __init__(self, segments: Segments, producers: ProducerStates, retired: RetiredSegments) -> None:
        self._segments = segments
        self._folder = segments.folder
        self._producers = producers
        self._retired = retired
        self._offset_path = segments.folder.file_path(checkpoints.CLEANER_OFFSET_NAME)

    def plan(self, now_ms: int) -> CompactionPass | None:
        """A pass that is due: run it in a thread and hand its result to `finish`."""
        folder, segments = self._folder, self._segments
        if not folder.config.is_compacted or folder.read_only_reason is not None:
            return None
        local = segments.view.segments
        plan = plan_compaction(
            [CompactionSegment.of(segment) for segment in local],
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
            config=folder.config,
            plan=plan,
            segments={segment.base_offset: segment for segment in local},
            last_offset_of_producers=self._producers.last_offsets(),
            aborted=tuple(entry for segment in local for entry in segment.aborted_index().entries),
            now_ms=now_ms,
            should_stop=lambda: folder.read_only_reason is not None,
        )

    def finish(self, compacted: Compacted) -> None:
        """Replace segments by the cleaned ones, oldest first."""
        folder = self._folder
        cleaned_offset, reach = self.offsets()
        dirty = compacted.first_dirty_offset
        if compacted.replacements and dirty > reach and folder.read_only_reason is None:
            # After a crash during the swaps, recovery must know up to where offsets may be missing without damage.
            checkpoints.write_cleaner_offsets(folder.files, self._offset_path, cleaned_offset, reach=dirty)
        for batch in compacted.undecodable:
            folder.on_event("batch_not_compacted", asdict(batch))
        for replacement in compacted.replacements:
            cleaned, sources = replacement.cleaned, replacement.sources
            is_replaced = set(sources) <= set(self._segments.view.segments[:-1])
            if not is_replaced or folder.config.is_archived or folder.read_only_reason is not None:
                # Retention has removed a source since, the sources may be archived by now, or the disk failed.
                cleaned.remove()
                continue
            try:
                directory = folder.open()
            except OSError as error:
                cleaned.remove()
                raise folder.storage_failed(f"compaction of {folder.path} failed: {error}") from error
            self._swap(cleaned, sources, directory)
        if folder.read_only_reason is None:
            checkpoints.write_cleaner_offsets(folder.files, self._offset_path, dirty, reach=max(dirty, reach))

    def offsets(self) -> tuple[int, int]:
        """(offset up to which the log is compacted, offset up to which segments may have been replaced)."""
        try:
            return checkpoints.read_cleaner_offsets(self._folder.files, self._offset_path)
        except InvalidFile as error:
            self._folder.on_event("cleaner_offset_ignored", {"path": self._offset_path, "reason": str(error)})
            return 0, 0

    def _swap(self, cleaned: Segment, sources: tuple[Segment, ...], directory: OpenFile) -> None:
        """Once the cleaned log has the suffix `.swap`, it is final: after a crash the next start finishes the swap."""
        folder, local = self._folder, self._segments.view.segments
        cleaned.extent = (sources[-1].next_offset, cleaned.size_bytes)
        first = local.index(sources[0])
        try:
            cleaned.change_suffix(SWAP_SUFFIX)
            folder.files.sync_names(directory.fd)
            self._segments.replace((*local[:first], cleaned, *local[first + len(sources) :]))
            for source in sources:
                self._retired.retire(source, folder.clock.now_ms())
            cleaned.change_suffix("")
            folder.files.sync_names(directory.fd)
        except OSError as error:
            folder.become_read_only(f"swapping in compacted segments failed: {error}")
            raise folder.storage_failed(f"compaction of {folder.path} failed: {error}") from error
        self._segments.keep_open(cleaned)
