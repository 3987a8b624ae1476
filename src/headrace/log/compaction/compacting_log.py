"""How a partition replaces its segments by compacted ones. Called by the log's own thread, as `partition_log` is.

What is kept and what goes is in `compaction`, how a pass reads and writes in `compaction_pass`.
"""

from __future__ import annotations

import os

from headrace.log import checkpoints
from headrace.log.compaction import cleaner as compaction
from headrace.log.compaction.file_pass import Compaction, cleaned_segment_of, compaction_segment
from headrace.log.errors import StorageFailed
from headrace.log.filesystem import OpenFile
from headrace.log.recovery import leftovers
from headrace.log.segment import Segment
from headrace.log.shrinking_log import ShrinkingLog


class CompactingLog(ShrinkingLog):
    def compaction_plan(self, now_ms: int) -> Compaction | None:
        """A pass that is due; run it in a thread and hand its result to finish_compaction."""
        if not self.config.is_compacted or self.read_only_reason is not None:
            return None
        segments = self._view.segments
        plan = compaction.plan(
            [compaction_segment(segment) for segment in segments],
            first_dirty_offset=self._cleaner_offsets()[0],
            start_offset=self.start_offset,
            cleanable_before_offset=min(self.durable_offset, self.last_stable_offset),
            now_ms=now_ms,
            config=self.config,
        )
        if plan is None:
            return None
        return Compaction(
            files=self._files,
            directory=self.directory,
            config=self.config,
            plan=plan,
            segments={segment.base_offset: segment for segment in segments},
            last_offset_of_producers=self.producers.last_offsets(),
            aborted=tuple(entry for segment in segments for entry in segment.aborted_index().entries),
            now_ms=now_ms,
            should_stop=lambda: self.read_only_reason is not None,
        )

    def finish_compaction(self, compacted: compaction.Compacted) -> None:
        """Put the cleaned segments in the place of what they were made from, oldest first."""
        path = os.path.join(self.directory, checkpoints.CLEANER_OFFSET_NAME)
        cleaned, reach = self._cleaner_offsets()
        if compacted.replacements and compacted.first_dirty_offset > reach and self.read_only_reason is None:
            # A start after a crash in between must know where offsets may be missing without damage.
            checkpoints.write_cleaner_offsets(self._files, path, cleaned, reach=compacted.first_dirty_offset)
        for replacement in compacted.replacements:
            sources = self._sources_of(replacement)
            if sources is None or self.read_only_reason is not None:
                # Retention was faster, or the disk failed.
                replacement.writer.abandon()
                continue
            try:
                directory = self._open_directory(self.directory)
            except OSError as error:
                replacement.writer.abandon()
                raise self._storage_failed(f"compaction of {self.directory} failed: {error}") from error
            self._swap(cleaned_segment_of(replacement), sources, directory)
        if self.read_only_reason is None:
            end = compacted.first_dirty_offset
            checkpoints.write_cleaner_offsets(self._files, path, end, reach=max(end, reach))

    def _cleaner_offsets(self) -> tuple[int, int]:
        path = os.path.join(self.directory, checkpoints.CLEANER_OFFSET_NAME)
        try:
            return checkpoints.read_cleaner_offsets(self._files, path)
        except checkpoints.InvalidCheckpoint as error:
            self._on_event("cleaner_offset_ignored", {"path": path, "reason": str(error)})
            return 0, 0

    def _sources_of(self, replacement: compaction.Replacement) -> tuple[Segment, ...] | None:
        """The segments that a replacement was made from, if all of them are still in the log."""
        if self.config.is_archived:
            return None  # the topic is no longer compacted, and the archive may have these already
        bases = {source.base_offset for source in replacement.sources}
        sources = tuple(segment for segment in self._view.segments[:-1] if segment.base_offset in bases)
        return sources if len(sources) == len(bases) else None

    def _swap(self, cleaned: Segment, sources: tuple[Segment, ...], directory: OpenFile) -> None:
        """Once the cleaned log is called `.swap` it has won: a crash from there on is finished at the next open."""
        cleaned.extent = (sources[-1].next_offset, cleaned.size_bytes)
        first = self._view.segments.index(sources[0])
        before, behind = self._view.segments[:first], self._view.segments[first + len(sources) :]
        try:
            cleaned.change_suffix(leftovers.SWAP_SUFFIX)
            self._files.sync_names(directory.fd)
            self._replace_segments((*before, cleaned, *behind))
            self._unsynced = [segment for segment in self._unsynced if segment not in sources]
            for source in sources:
                self._opened.pop(source.base_offset, None)
                self._set_aside(source, self._clock.now_ms())
            cleaned.change_suffix("")
            self._files.sync_names(directory.fd)
        except OSError as error:
            self._become_read_only(f"swapping in compacted segments failed: {error}")
            raise self._storage_failed(f"compaction of {self.directory} failed: {error}") from error
        self._note_open(cleaned)

    def _storage_failed(self, message: str) -> StorageFailed:
        self._on_event("storage_failed", {"path": self.directory, "reason": message})
        return StorageFailed(message, hint="make room on the disk, or replace it; nothing was acknowledged")

    def _become_read_only(self, reason: str) -> None:
        if self.read_only_reason is None:
            self.read_only_reason = reason
            self._on_event("log_read_only", {"path": self.directory, "reason": reason})

    def _open_directory(self, path: str) -> OpenFile:
        return OpenFile(self._files, path, self._files.open_directory(path))
