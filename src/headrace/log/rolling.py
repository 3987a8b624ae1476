"""When the active segment is closed, and how the next one starts."""

from __future__ import annotations

from headrace.log.index import OFFSET_ENTRY_BYTES
from headrace.log.recovery.snapshots import ProducerSnapshots
from headrace.log.segment import RELATIVE_OFFSET_MAX, Segment
from headrace.log.segments import Segments


class SegmentRoller:
    def __init__(self, segments: Segments, snapshots: ProducerSnapshots) -> None:
        self._segments = segments
        self._folder = segments.folder
        self._snapshots = snapshots

    def is_due(
        self,
        segment: Segment,
        size: int,
        last_offset: int,
        max_timestamp_ms: int,
        now_ms: int,
        *,
        entries: int = 1,
    ) -> bool:
        """Whether batches of this size, last offset and timestamp, with so many index entries, do not fit any more."""
        config = self._folder.config
        if segment.extent[1] + size > config.segment_bytes_max:
            return True
        if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if segment.index_bytes + entries * OFFSET_ENTRY_BYTES > config.index_bytes_max:
            return True
        first_timestamp_ms = segment.first_batch_timestamp_ms()
        if first_timestamp_ms is None or first_timestamp_ms < 0 or max_timestamp_ms < 0:
            return now_ms - segment.created_ms > config.segment_ms
        return max_timestamp_ms - first_timestamp_ms > config.segment_ms

    def roll(self, *, keeps_old: bool = True) -> Segment:
        """Close the active segment and start the next; StorageFailed has changed nothing.

        Without `keeps_old` the old segment is about to be removed, and takes no more disk space for its indexes.
        """
        folder, segments = self._folder, self._segments
        old = segments.active
        try:
            if keeps_old:
                old.write_indexes(is_final=True)
                old.write_aborted_index()
            new = segments.create(segments.end_offset)
        except OSError as error:
            raise folder.storage_failed(f"starting a new segment in {folder.path} failed: {error}") from error
        segments.replace((*segments.view.segments, new))
        segments.keep_open(old)
        if folder.config.is_archived and keeps_old:
            self._snapshots.try_write()  # as of this offset: it is archived with the segment
        return new
