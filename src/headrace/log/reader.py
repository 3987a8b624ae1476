"""Reading a partition by offset and by time, from any thread.

A read uses the segments of one moment, and files that stay open until the read releases them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from headrace.log import segment_reading
from headrace.log.aborted_index import AbortedTransaction
from headrace.log.archive.archived_segments import ArchivedSegment, entries_from
from headrace.log.archive.log_archive import LogArchive
from headrace.log.errors import CorruptArchive, OffsetOutOfRange, WouldBlock
from headrace.log.filesystem import Buffer
from headrace.log.index import NO_TIMESTAMP
from headrace.log.segment import Segment
from headrace.log.segment_reading import TimestampOffset
from headrace.log.segments import Segments, View


class LogReader:
    def __init__(self, segments: Segments, archive: LogArchive) -> None:
        self._segments = segments
        self._folder = segments.folder
        self._archive = archive
        self._positions: dict[int, tuple[Segment, int]] = {}

    def read(
        self, offset: int, *, bytes_max: int, end_offset: int, at_least_one: bool, nowait: bool = False
    ) -> Buffer:
        """Stored batches, unchanged and whole, from the one that holds offset, all below end_offset.

        At most bytes_max, but with at_least_one never less than a batch. `nowait` raises WouldBlock instead of
        waiting for the disk.
        """
        segments = self._segments
        if not segments.start_offset <= offset <= segments.end_offset:
            raise self._out_of_range(offset)
        if offset >= end_offset:
            return b""
        try:
            return self._read_known(offset, bytes_max, end_offset, at_least_one, nowait)
        except FileNotFoundError:
            # Retention or compaction removed the segment during this read: read what replaced it.
            if offset < segments.start_offset:
                raise self._out_of_range(offset) from None
            return self._read_anywhere(offset, bytes_max, end_offset, at_least_one, nowait)

    def _out_of_range(self, offset: int) -> OffsetOutOfRange:
        segments = self._segments
        return OffsetOutOfRange(
            offset=offset, start_offset=segments.start_offset, end_offset=segments.end_offset
        )

    def _read_known(
        self, offset: int, bytes_max: int, end_offset: int, at_least_one: bool, nowait: bool
    ) -> Buffer:
        """Read at the position where an earlier read ended, if it is known; else look the offset up."""
        known = self._positions.get(offset)
        if known is not None and not known[0].is_retired:
            segment, position = known
            found = self._read_in(segment, offset, position, bytes_max, end_offset, at_least_one, nowait)
            # An earlier offset means that a damaged batch misled the read before: a look-up notices it.
            if found is not None and (not found or int.from_bytes(found[:8], "big") >= offset):
                return found
        return self._read_anywhere(offset, bytes_max, end_offset, at_least_one, nowait)

    def _read_anywhere(
        self, offset: int, bytes_max: int, end_offset: int, at_least_one: bool, nowait: bool
    ) -> Buffer:
        view = self._segments.view
        if offset < view.base_offsets[0] and self._archive.partition_archive is not None:
            if nowait:
                raise WouldBlock
            found = self._read_archived(view, offset, bytes_max, end_offset, at_least_one)
            if found is not None:
                return found
        for segment in view.from_offset(offset):
            if segment.base_offset >= end_offset:
                break
            if not segment.is_open and segment is not view.segments[-1]:
                self._segments.keep_open(segment)
            found = self._read_in(segment, offset, None, bytes_max, end_offset, at_least_one, nowait)
            if found is not None:
                return found
        return b""

    def _read_archived(
        self, view: View, offset: int, bytes_max: int, end_offset: int, at_least_one: bool
    ) -> Buffer | None:
        """Read from the archive; None if what follows offset is on the local disk."""
        partition_archive = self._archive.partition_archive
        assert partition_archive is not None
        found: Buffer | None = None
        try:
            for segment in partition_archive.segments_from(
                self._archive.entries, offset, below_offset=view.base_offsets[0]
            ):
                if segment.base_offset >= end_offset:
                    return b""
                found = self._read_in(segment, offset, None, bytes_max, end_offset, at_least_one, False)
                if found is not None:
                    break
        except CorruptArchive as error:
            # Retention advances the start first: an object that it has deleted since is not damage.
            if offset >= self._segments.start_offset:
                partition_archive.shared.report(error)
                raise
        if offset < self._segments.start_offset:
            raise self._out_of_range(offset)
        return found

    def _read_in(
        self,
        segment: Segment,
        offset: int,
        position: int | None,
        bytes_max: int,
        end_offset: int,
        at_least_one: bool,
        nowait: bool,
    ) -> Buffer | None:
        found = segment_reading.read_segment(
            segment,
            offset,
            position=position,
            limit=self._limit_in(segment, end_offset),
            bytes_max=bytes_max,
            at_least_one=at_least_one,
            nowait=nowait,
        )
        if found is None:
            return None
        if found.next_offset > offset:
            self._remember(found.next_offset, segment, found.next_position)
        return found.batches

    def _limit_in(self, segment: Segment, end_offset: int) -> tuple[int, int]:
        """(offset, position) in the segment that a read up to end_offset must not pass."""
        extent = segment.extent
        if end_offset >= extent[0]:
            return extent
        durable_offset, durable_segment, durable_position = self._segments.durable_mark
        if end_offset == durable_offset and segment is durable_segment:
            return durable_offset, durable_position
        return end_offset, segment_reading.position_of(segment, end_offset)

    def _remember(self, next_offset: int, segment: Segment, position: int) -> None:
        positions = self._positions
        if len(positions) >= self._folder.config.read_positions_max:
            # Another reader may remove the same one.
            with suppress(KeyError, RuntimeError, StopIteration):
                del positions[next(iter(positions))]
        positions[next_offset] = (segment, position)

    def drop_positions(self) -> None:
        """Release the segments in which reads ended."""
        self._positions.clear()

    # --- by time ---

    def offset_for_timestamp(
        self, timestamp_ms: int, *, end_offset: int, searches_archive: bool = True
    ) -> TimestampOffset | None:
        """The first record below end_offset with this timestamp or a later one.

        Without `searches_archive`, for callers that cannot wait, the result may be up to one archived segment earlier.
        """
        start_offset = self._segments.start_offset
        for entry in self._archive.archived_only:
            if entry.base_offset >= end_offset:
                return None
            if entry.next_offset <= start_offset or entry.max_timestamp_ms < timestamp_ms:
                continue
            if not searches_archive:
                offset = max(entry.base_offset, start_offset)
                return TimestampOffset(offset=offset, timestamp_ms=NO_TIMESTAMP, leader_epoch=-1)
            found = self._first_archived(entry, timestamp_ms, end_offset)
            if found is not None:
                return found
        for segment in self._segments.view.segments:
            if segment.base_offset >= end_offset:
                break
            if segment.next_offset <= start_offset or segment.largest_timestamp_ms() < timestamp_ms:
                continue
            found = self._first_at_or_after(segment, timestamp_ms, end_offset)
            if found is not None:
                return found
        return None

    def _first_archived(
        self, entry: ArchivedSegment, timestamp_ms: int, end_offset: int
    ) -> TimestampOffset | None:
        partition_archive = self._archive.partition_archive
        assert partition_archive is not None
        try:
            return self._first_at_or_after(partition_archive.segment(entry), timestamp_ms, end_offset)
        except CorruptArchive as error:
            if entry.next_offset <= self._segments.start_offset:
                return None  # retention has deleted it since
            partition_archive.shared.report(error)
            raise

    def _first_at_or_after(
        self, segment: Segment, timestamp_ms: int, end_offset: int
    ) -> TimestampOffset | None:
        return segment_reading.first_at_or_after(
            segment,
            timestamp_ms,
            start_offset=self._segments.start_offset,
            end_offset=end_offset,
            decompressed_bytes_max=self._folder.config.decompressed_bytes_max,
        )

    def max_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp of the log."""
        newest = max(
            (
                *(segment.largest_timestamp_ms() for segment in self._segments.view.segments),
                *(entry.max_timestamp_ms for entry in self._archive.archived_only),
            ),
            default=NO_TIMESTAMP,
        )
        if newest < 0:
            return None
        return self.offset_for_timestamp(newest, end_offset=self._segments.end_offset)

    # --- transactions ---

    def aborted_transactions(self, from_offset: int, below_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions with records between the two offsets."""
        found: list[tuple[int, int]] = []
        for entries in self._aborted_from(from_offset):
            for entry in entries:
                if entry.last_offset >= from_offset and entry.first_offset < below_offset:
                    found.append((entry.producer_id, entry.first_offset))
                if entry.last_stable_offset >= below_offset:
                    return found
        return found

    def _aborted_from(self, offset: int) -> Iterator[Sequence[AbortedTransaction]]:
        """The lists of the segments from the one that holds offset; none of this waits for the archive."""
        view = self._segments.view
        partition_archive = self._archive.partition_archive
        if offset < view.base_offsets[0] and partition_archive is not None:
            for archived in entries_from(self._archive.archived_only, offset):
                yield partition_archive.aborted(self._folder.files, self._folder.path, archived)
        for segment in view.from_offset(offset):
            yield segment.aborted_index().entries
