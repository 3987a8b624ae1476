"""The segments of a partition, and the offsets that bound them.

The log's own thread changes them; any thread reads them. Segments are in a tuple that is replaced as a whole and never
changed, so that a reader sees the segments of one moment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct

from headrace.log.folder import PartitionFolder
from headrace.log.segment import Segment
from headrace.log.segment_names import segment_path


class View(Struct):
    """All segments at one moment, oldest first, the active one last."""

    segments: tuple[Segment, ...]
    base_offsets: list[int]

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """The segment that holds an offset, and those after it."""
        return self.segments[floor_segment(self.base_offsets, offset) :]


class Segments:
    def __init__(self, folder: PartitionFolder) -> None:
        self.folder = folder
        self._opened: dict[int, Segment] = {}
        self.start_offset = 0
        self.end_offset = 0
        self.durable_offset = 0
        """Everything below is on disk."""
        self.durable_mark: tuple[int, Segment | None, int] = (0, None, 0)
        """(durable offset, its segment, its position): always of the same moment."""
        self.view = View((), [])

    def __len__(self) -> int:
        return len(self.view.segments)

    @property
    def active(self) -> Segment:
        return self.view.segments[-1]

    @property
    def base_offsets(self) -> list[int]:
        return self.view.base_offsets

    @property
    def local_start_offset(self) -> int:
        """First offset that is read from the local disk; offsets from `start_offset` up to it are in the archive."""
        return max(self.start_offset, self.view.base_offsets[0])

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.view.segments)

    def replace(self, segments: tuple[Segment, ...]) -> None:
        self.view = View(segments, [segment.base_offset for segment in segments])

    def load(self, segments: Sequence[Segment]) -> None:
        """Use segments that are on disk."""
        self.replace(tuple(segments))
        self.end_offset = segments[-1].next_offset
        self.set_durable(self.end_offset, segments[-1], segments[-1].size_bytes)

    def set_durable(self, offset: int, segment: Segment, position: int) -> None:
        self.durable_mark = (offset, segment, position)
        self.durable_offset = offset

    # --- files ---

    def make(self, base_offset: int, *, size_bytes: int, next_offset: int) -> Segment:
        """A segment of this folder, whether or not its files exist."""
        return Segment(
            files=self.folder.files,
            stem=segment_path(self.folder.path, base_offset),
            base_offset=base_offset,
            size_bytes=size_bytes,
            next_offset=next_offset,
            index_interval_bytes=self.folder.config.index_interval_bytes,
            created_ms=self.folder.clock.now_ms(),
        )

    def create(self, base_offset: int) -> Segment:
        """An empty segment with its files."""
        segment = self.make(base_offset, size_bytes=0, next_offset=base_offset)
        try:
            segment.create()
        except OSError as error:
            self._remove_unfinished(segment, error)
            raise
        self.folder.names_changed += 1
        return segment

    def _remove_unfinished(self, segment: Segment, error: OSError) -> None:
        """Remove a log file without indexes: appends may continue in the segment before it."""
        try:
            segment.remove()
        except OSError as second:
            self.folder.become_read_only(
                f"{segment.path} could be neither created ({error}) nor removed ({second})"
            )

    def keep_open(self, segment: Segment) -> None:
        """Bound the number of open closed segments: the one that was opened first is released."""
        opened = self._opened
        opened[segment.base_offset] = segment
        while len(opened) > self.folder.config.closed_segments_open_max:
            try:
                oldest = opened.pop(next(iter(opened)))
            except (KeyError, RuntimeError, StopIteration):
                break  # another thread releases one at the same time
            if oldest.synced_bytes >= oldest.size_bytes and oldest is not self.active:
                oldest.release()

    def drop_open(self, segment: Segment) -> None:
        self._opened.pop(segment.base_offset, None)


def floor_segment(base_offsets: Sequence[int], offset: int) -> int:
    """Index of the segment that holds an offset, or would."""
    return max(0, bisect_right(base_offsets, offset) - 1)
