"""How a log drops its oldest records: by retention, and when a client deletes them. Called by the log's own thread."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from headrace.log.archive.log_archive import LogArchive
from headrace.log.errors import OffsetOutOfRange, StorageFailed
from headrace.log.retention import ExpiredSegment, RetentionReason, RetentionSegment, plan_retention
from headrace.log.retired import RetiredSegments
from headrace.log.rolling import SegmentRoller
from headrace.log.segments import Segments, floor_segment


class LogRetention:
    def __init__(
        self, segments: Segments, archive: LogArchive, retired: RetiredSegments, roller: SegmentRoller
    ) -> None:
        self._segments = segments
        self._folder = segments.folder
        self._archive = archive
        self._retired = retired
        self._roller = roller

    def delete_records_before(self, offset: int) -> int:
        """Advance the start of the log to offset and retire the segments below it; returns the start."""
        segments = self._segments
        if offset > segments.end_offset:
            raise OffsetOutOfRange(
                offset=offset, start_offset=segments.start_offset, end_offset=segments.end_offset
            )
        if offset > segments.start_offset:
            segments.start_offset = offset
            below = floor_segment(segments.base_offsets, offset)
            self._retired.retire_oldest(below, self._folder.clock.now_ms())
            self._archive.drop_expired()
        return segments.start_offset

    def apply(self, now_ms: int) -> list[ExpiredSegment]:
        """Drop segments past `retention.ms` or `retention.bytes`, and remove files whose delay has passed.

        Segments that are only in the archive count as well. Closed segments are dropped first: on a full disk they
        make room for a new active segment.
        """
        self._retired.remove_due(now_ms)
        segments = self._segments
        local = segments.view.segments
        archived_only = [entry.for_retention() for entry in self._archive.archived_only]
        plan = plan_retention(
            [*archived_only, *(RetentionSegment.of(segment) for segment in local)],
            start_offset=segments.start_offset,
            now_ms=now_ms,
            config=self._folder.config,
        )
        if not plan.expired:
            return []
        for expired, segment in zip(plan.expired[len(archived_only) :], local, strict=False):
            if expired.reason is RetentionReason.TIME and not segment.confirms_largest_timestamp():
                self._folder.on_event("time_index_rebuilt", {"path": segment.path})
                return self.apply(now_ms)
        self._drop(len(plan.expired) - plan.rolls_active, archived_only, now_ms)
        if plan.rolls_active and self._folder.read_only_reason is None:
            with suppress(StorageFailed):  # an event has reported it, and the next pass retries
                self._roller.roll(keeps_old=False)
                self._drop(1, (), now_ms)
        return [segment for segment in plan.expired if segment.base_offset < segments.start_offset]

    def _drop(self, count: int, archived_only: Sequence[RetentionSegment], now_ms: int) -> None:
        """Drop the oldest segments, those that are only in the archive first."""
        kept_archived = archived_only[count:]
        self._retired.retire_oldest(count - len(archived_only), now_ms)
        segments = self._segments
        first_kept = kept_archived[0].base_offset if kept_archived else segments.base_offsets[0]
        segments.start_offset = max(segments.start_offset, first_kept)
        self._archive.drop_expired()
