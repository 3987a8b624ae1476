"""The part of a partition that any thread may use: reading by offset and by time.

It works on a tuple of segments that is replaced and never changed, and on files that stay open for as long as a read
holds them. `PartitionLog` adds what only the log's own thread may do.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from headrace.log import reading
from headrace.log.archive.manifest import ArchivedSegment, entries_before
from headrace.log.archive.reading import CorruptArchive, PartitionArchive
from headrace.log.config import LogConfig
from headrace.log.errors import OffsetOutOfRange, WouldBlock
from headrace.log.filesystem import Buffer
from headrace.log.reading import TimestampOffset, floor_segment
from headrace.log.segment import Damage, Segment

NO_TIMESTAMP = -1


@dataclass(slots=True)
class View:
    """All segments at one moment, oldest first, the active one last. Replaced as a whole."""

    segments: tuple[Segment, ...]
    base_offsets: list[int]


class ReadableLog:
    """Segments, and where they begin, end and are durable."""

    def __init__(self, directory: str, config: LogConfig) -> None:
        self.directory = directory
        self.config = config
        self.start_offset = 0
        self.end_offset = 0
        self.durable_offset = 0
        """Everything below is on stable storage."""
        self.damages: tuple[Damage, ...] = ()
        self.archive: PartitionArchive | None = None
        self.archived: tuple[ArchivedSegment, ...] = ()
        """Segments that are in the archive and count, oldest first; the newest of them may be here as well."""
        self._view = View((), [])
        self._durable_mark: tuple[int, Segment | None, int] = (0, None, 0)
        self._read_positions: dict[int, tuple[Segment, int]] = {}
        self._opened: dict[int, Segment] = {}

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._view.segments)

    @property
    def local_start_offset(self) -> int:
        """First offset that is read from this disk; below it, and from `start_offset` on, the archive is asked."""
        return max(self.start_offset, self._view.base_offsets[0])

    @property
    def local_base_offsets(self) -> list[int]:
        """First offsets of the segments on this disk."""
        return self._view.base_offsets

    @property
    def archived_only(self) -> tuple[ArchivedSegment, ...]:
        """Segments that are in the archive and no longer here."""
        return entries_before(self.archived, self._view.base_offsets[0]) if self.archived else ()

    @property
    def segments(self) -> int:
        """How many segments there are."""
        return len(self._view.segments)

    @property
    def damage(self) -> Damage | None:
        """The first damage that was found, if any."""
        return self.damages[0] if self.damages else None

    @property
    def _active(self) -> Segment:
        return self._view.segments[-1]

    def _replace_segments(self, segments: tuple[Segment, ...]) -> None:
        self._view = View(segments, [segment.base_offset for segment in segments])

    def _set_durable(self, offset: int, segment: Segment, position: int) -> None:
        self._durable_mark = (offset, segment, position)
        self.durable_offset = offset

    def read(
        self, offset: int, *, bytes_max: int, end_offset: int, at_least_one: bool, nowait: bool = False
    ) -> Buffer:
        """Whole batches as they are stored, from the one that holds offset on, all below end_offset.

        At most bytes_max, but with at_least_one never less than a batch. `nowait` raises WouldBlock instead of
        waiting for the disk.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset=offset, start_offset=self.start_offset, end_offset=self.end_offset)
        if offset >= end_offset:
            return b""
        try:
            return self._read_there(offset, bytes_max, end_offset, at_least_one, nowait)
        except FileNotFoundError:
            # Retention or compaction removed the segment under this read; what took its place decides.
            if offset < self.start_offset:
                raise OffsetOutOfRange(
                    offset=offset, start_offset=self.start_offset, end_offset=self.end_offset
                ) from None
            return self._read_anywhere(offset, bytes_max, end_offset, at_least_one, nowait)

    def _read_there(
        self, offset: int, bytes_max: int, end_offset: int, at_least_one: bool, nowait: bool
    ) -> Buffer:
        """Where an earlier read ended, if it is known, and otherwise wherever the index says."""
        place = self._read_positions.get(offset)
        if place is not None and not place[0].is_retired:
            segment, position = place
            found = self._read_in(segment, offset, position, bytes_max, end_offset, at_least_one, nowait)
            # An earlier offset there means that a damaged batch misled the read before: a look-up notices it.
            if found is not None and (not found or int.from_bytes(found[:8], "big") >= offset):
                return found
        return self._read_anywhere(offset, bytes_max, end_offset, at_least_one, nowait)

    def _read_anywhere(
        self, offset: int, bytes_max: int, end_offset: int, at_least_one: bool, nowait: bool
    ) -> Buffer:
        view = self._view
        if offset < view.base_offsets[0] and self.archive is not None:
            if nowait:
                raise WouldBlock
            found = self._read_archived(view, offset, bytes_max, end_offset, at_least_one)
            if found is not None:
                return found
        for segment in view.segments[floor_segment(view.base_offsets, offset) :]:
            if segment.base_offset >= end_offset:
                break
            if not segment.is_open and segment is not view.segments[-1]:
                self._note_open(segment)
            found = self._read_in(segment, offset, None, bytes_max, end_offset, at_least_one, nowait)
            if found is not None:
                return found
        return b""

    def _read_archived(
        self, view: View, offset: int, bytes_max: int, end_offset: int, at_least_one: bool
    ) -> Buffer | None:
        """From the archive; None when what follows offset is on this disk."""
        assert self.archive is not None
        found: Buffer | None = None
        try:
            for segment in self.archive.segments_from(
                self.archived, offset, below_offset=view.base_offsets[0]
            ):
                if segment.base_offset >= end_offset:
                    return b""
                found = self._read_in(segment, offset, None, bytes_max, end_offset, at_least_one, False)
                if found is not None:
                    break
        except CorruptArchive as error:
            # Retention moves the start first: what it took away meanwhile is no damage.
            if offset >= self.start_offset:
                self.archive.shared.report(error)
                raise
        if offset < self.start_offset:
            raise OffsetOutOfRange(offset=offset, start_offset=self.start_offset, end_offset=self.end_offset)
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
        found = reading.read_segment(
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
        durable_offset, durable_segment, durable_position = self._durable_mark
        if end_offset == durable_offset and segment is durable_segment:
            return durable_offset, durable_position
        return end_offset, reading.position_of(segment, end_offset)

    def _remember(self, next_offset: int, segment: Segment, position: int) -> None:
        positions = self._read_positions
        if len(positions) >= self.config.read_positions_max:
            # Another reader may be making room at the same time.
            with suppress(KeyError, RuntimeError, StopIteration):
                del positions[next(iter(positions))]
        positions[next_offset] = (segment, position)

    def _note_open(self, segment: Segment) -> None:
        """Keep the number of open closed segments bounded: the one opened longest ago is let go."""
        opened = self._opened
        opened[segment.base_offset] = segment
        while len(opened) > self.config.closed_segments_open_max:
            try:
                oldest = opened.pop(next(iter(opened)))
            except (KeyError, RuntimeError, StopIteration):
                break
            if oldest.synced_bytes >= oldest.size_bytes and oldest is not self._active:
                oldest.release()

    def offset_for_timestamp(
        self, timestamp_ms: int, *, end_offset: int, searches_archive: bool = True
    ) -> TimestampOffset | None:
        """The first record below end_offset that is not older than timestamp_ms.

        Without `searches_archive`, for who can't wait, it may be up to an archived segment before that.
        """
        for entry in self.archived_only:
            if entry.base_offset >= end_offset:
                return None
            if entry.next_offset <= self.start_offset or entry.max_timestamp_ms < timestamp_ms:
                continue
            if not searches_archive:
                offset = max(entry.base_offset, self.start_offset)
                return TimestampOffset(offset=offset, timestamp_ms=NO_TIMESTAMP, leader_epoch=-1)
            found = self._first_archived(entry, timestamp_ms, end_offset)
            if found is not None:
                return found
        for segment in self._view.segments:
            if segment.base_offset >= end_offset:
                break
            if segment.next_offset <= self.start_offset or segment.largest_timestamp_ms() < timestamp_ms:
                continue
            found = self._first_at_or_after(segment, timestamp_ms, end_offset)
            if found is not None:
                return found
        return None

    def _first_archived(
        self, entry: ArchivedSegment, timestamp_ms: int, end_offset: int
    ) -> TimestampOffset | None:
        assert self.archive is not None
        try:
            return self._first_at_or_after(self.archive.segment(entry), timestamp_ms, end_offset)
        except CorruptArchive as error:
            if entry.next_offset <= self.start_offset:
                return None  # retention took it away meanwhile
            self.archive.shared.report(error)
            raise

    def _first_at_or_after(
        self, segment: Segment, timestamp_ms: int, end_offset: int
    ) -> TimestampOffset | None:
        return reading.first_at_or_after(
            segment,
            timestamp_ms,
            start_offset=self.start_offset,
            end_offset=end_offset,
            decompressed_bytes_max=self.config.decompressed_bytes_max,
        )

    def max_timestamp(self) -> TimestampOffset | None:
        """The first record with the largest timestamp of all."""
        newest = max(
            (
                *(segment.largest_timestamp_ms() for segment in self._view.segments),
                *(entry.max_timestamp_ms for entry in self.archived_only),
            ),
            default=NO_TIMESTAMP,
        )
        if newest < 0:
            return None
        return self.offset_for_timestamp(newest, end_offset=self.end_offset)
