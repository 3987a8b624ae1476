"""Segments that are no longer part of the log and whose files still exist, for reads that are inside them."""

from __future__ import annotations

from headrace.log.recovery.leftovers import DELETED_SUFFIX
from headrace.log.segment import Segment
from headrace.log.segments import Segments


class RetiredSegments:
    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._folder = segments.folder
        self._retired: list[tuple[int, Segment]] = []

    def retire_oldest(self, count: int, now_ms: int) -> None:
        """Take the oldest segments out of the log."""
        if count <= 0:
            return
        oldest, kept = self._segments.view.segments[:count], self._segments.view.segments[count:]
        self._segments.replace(kept)
        for number, segment in enumerate(oldest):
            try:
                self.retire(segment, now_ms)
            except OSError as error:
                # This one and those after it stay in the log until the next pass.
                segment.is_retired = False
                self._segments.replace((*oldest[number:], *kept))
                self._report(segment, error)
                break
        self._folder.names_changed += 1

    def retire(self, segment: Segment, now_ms: int) -> None:
        """Rename the files of a segment; `remove_due` removes them later."""
        segment.is_retired = True
        segment.change_suffix(DELETED_SUFFIX)
        self._segments.drop_open(segment)
        self._retired.append((now_ms + self._folder.config.file_delete_delay_ms, segment))

    def remove_due(self, now_ms: int) -> int:
        """Remove the files of segments whose `file.delete.delay.ms` has passed; the number of segments."""
        removed = 0
        for entry in self._retired[:]:
            due_ms, segment = entry
            if due_ms > now_ms:
                continue
            try:
                segment.remove()
            except OSError as error:
                self._report(segment, error)
                continue
            self._retired.remove(entry)
            removed += 1
        return removed

    def remove_all(self) -> None:
        for _, segment in self._retired:
            segment.remove()
        self._retired.clear()

    def _report(self, segment: Segment, error: OSError) -> None:
        self._folder.on_event("segment_not_removed", {"path": segment.path, "reason": str(error)})
