"""Opening the segments of a partition: quickly after a clean stop, carefully after any other end.

After a clean stop only the last few headers are read. Otherwise every batch from the recovery point on is checked, and
that the segments before it join. Bytes behind the last valid batch are a torn tail and are cut, but only behind the
recovery point: what it covers was on disk. That, and damage with a valid batch behind it, is never cut but reported,
and the log opens read-only.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headrace.log.checkpoints import CleanStop, EpochStart
from headrace.log.config import LogConfig
from headrace.log.errors import CorruptSegment
from headrace.log.filesystem import FileSystem
from headrace.log.index import OffsetIndex, TimeIndex
from headrace.log.reading import floor_segment
from headrace.log.segment import LOG_SUFFIX, RELATIVE_OFFSET_MAX, Damage, Segment, segment_path
from headrace.records.batch import HEADER_BYTES, MAGIC, BatchHeader, checksum_matches, read_header

EventSink = Callable[[str, Mapping[str, object]], None]
"""Called with an event's name and its fields: what an operator should find in the broker's logs."""

# Pieces in which a log is checked; a batch that is larger is read whole.
CHECK_BYTES = 1024 * 1024
# No request may be larger (socket.request.max.bytes), so that no batch can be: a damaged length is not believed.
BATCH_BYTES_POSSIBLE = 104_857_600
# Enough for the batches behind the last entry of an index, unless they are large, at one read.
JOIN_BYTES = 8192
_LENGTH_MIN = 49


@dataclass(slots=True, kw_only=True)
class Recovery:
    """What checking the segments needs to know and what it found out."""

    files: FileSystem
    config: LogConfig
    on_event: EventSink
    epochs: Sequence[EpochStart]
    """Known epochs; empty when their file is lost, and the batches are believed."""
    damages: list[Damage] = field(default_factory=list)
    bytes_cut: int = 0
    last_epoch: int = -1
    """Epoch of the last batch that was looked at."""
    looks_only: bool = False
    """Nothing is cut and no index written."""
    covered_offset: int = 0
    """Everything below was on disk: what is missing of it is damage, and its offsets are not used again."""
    cleaned_offset: int = 0
    """Compaction may have left gaps below."""
    lost: Sequence[tuple[int, int]] = ()
    """(first, next offset) of ranges that a repair has given up."""
    changed: Container[int] = ()
    """Base offsets of segments that are not, or not followed, as a clean stop left them."""

    def explains_gap(self, segment: Segment, first_offset: int, next_offset: int) -> bool:
        """Whether offsets may be missing at the end of a segment without damage."""
        if is_given_up(self.lost, first_offset, next_offset):
            return True
        return next_offset <= self.cleaned_offset and segment.base_offset not in self.changed

    def report(self, damage: Damage) -> None:
        self.damages.append(damage)
        self.on_event(
            "segment_damaged",
            {
                "path": damage.path,
                "position": damage.position,
                "end_position": damage.end_position,
                "first_offset": damage.first_offset,
                "next_offset": damage.next_offset,
                "reason": damage.reason,
                "hint": f"stop the broker and run `headrace log repair {os.path.dirname(damage.path)}`",
            },
        )

    def epoch_at(self, offset: int) -> int | None:
        """Epoch that a batch with this offset must carry."""
        found = bisect_right(self.epochs, offset, key=lambda entry: entry.start_offset)
        return self.epochs[found - 1].epoch if found else None


def is_given_up(lost: Sequence[tuple[int, int]], first_offset: int, next_offset: int) -> bool:
    """Whether a repair has given these offsets up."""
    return any(first <= first_offset and next_offset <= following for first, following in lost)


def load_tail(segment: Segment) -> bool:
    """Find the end of the active segment after a clean stop; False when the files are not as that leaves them."""
    entries = segment.last_entries()
    if entries is None:
        return False
    indexed_position = position = entries.position
    max_timestamp_ms, max_timestamp_offset = entries.max_timestamp_ms, entries.max_timestamp_offset
    next_offset = segment.base_offset
    try:
        for at, header in segment.walk(indexed_position, chunk_bytes=HEADER_BYTES):
            if at == indexed_position and entries.last_offset not in (None, header.last_offset):
                return False
            is_known = at != indexed_position or entries.last_offset is None
            if is_known and header.base_offset != next_offset:
                return False  # the checksum does not cover the offset, and an active segment has no gaps
            next_offset = header.next_offset
            if header.max_timestamp_ms > max_timestamp_ms:
                max_timestamp_ms, max_timestamp_offset = header.max_timestamp_ms, header.last_offset
            position = at + header.size_bytes
    except CorruptSegment:
        return False
    if next_offset <= segment.base_offset and segment.size_bytes:
        return False
    segment.extent = (next_offset, position)
    segment.resume(
        bytes_since_index=position - indexed_position,
        max_timestamp_ms=max_timestamp_ms,
        max_timestamp_offset=max_timestamp_offset,
    )
    return True


def check_from(recovery: Recovery, segments: list[Segment], recovery_offset: int) -> list[Segment]:
    """Check every batch from recovery_offset on; the segments that remain, the last one ready to be appended to."""
    first = floor_segment([segment.base_offset for segment in segments], recovery_offset)
    for closed, behind in pairwise(segments[: first + 1]):
        if not _reaches(recovery, closed, behind.base_offset):
            checker = SegmentChecker(recovery, closed, next_base_offset=behind.base_offset, is_last=False)
            checker.check(closed.base_offset)
    last_with_batches = max(
        (number for number, segment in enumerate(segments) if segment.size_bytes), default=first
    )
    expected = segments[first].base_offset
    number = first
    for number in range(first, len(segments)):
        segment = segments[number]
        if expected != segment.base_offset and number > last_with_batches:
            # The segment before was cut: this empty one no longer fits behind it.
            break
        following = segments[number + 1] if number + 1 < len(segments) else None
        checker = SegmentChecker(
            recovery,
            segment,
            next_base_offset=following.base_offset if following else None,
            is_last=number >= last_with_batches,
        )
        expected = checker.check(recovery_offset if number == first else segment.base_offset)
    else:
        number = len(segments)
    for segment in segments[number:]:
        segment.remove()
    return segments[:number]


def is_as_left(recovery: Recovery, segments: list[Segment], clean_stop: CleanStop | None) -> bool:
    """Whether the files are as a clean stop leaves them, as far as that can be told without reading batches."""
    if clean_stop is not None:
        recovery.changed = _changed(clean_stop.segment_bytes, segments)
        if recovery.changed:
            return False
    return load_tail(segments[-1]) and segments[-1].next_offset >= recovery.covered_offset


def _changed(left: Mapping[int, int], segments: list[Segment]) -> set[int]:
    """Base offsets of segments that have another size than they were left with, or whose next one is gone."""
    found = {segment.base_offset: segment.size_bytes for segment in segments}
    changed = {base for base, size_bytes in found.items() if left.get(base) != size_bytes}
    bases = list(found)
    return changed.union(bases[floor_segment(bases, base)] for base in left if base not in found)


def check_first(
    recovery: Recovery, segments: list[Segment], first_offset: int, clean_stop: CleanStop | None
) -> None:
    """Look for segments that are missing before the first one. Only after a clean stop is it certain that they are."""
    first = segments[0]
    if first.base_offset <= first_offset or is_given_up(recovery.lost, first_offset, first.base_offset):
        return
    damage = missing(
        segment_path(os.path.dirname(first.path), first_offset) + LOG_SUFFIX,
        0,
        first_offset,
        first.base_offset,
    )
    if clean_stop is None:
        # Retention may have removed them just before the crash.
        recovery.on_event("log_begins_late", {"path": damage.path, "log_start_offset": first.base_offset})
        return
    first.damages = (damage, *first.damages)
    recovery.report(damage)


def missing(path: str, position: int, first_offset: int, next_offset: int) -> Damage:
    """Offsets of which no byte is left."""
    return Damage(
        path=path,
        position=position,
        end_position=position,
        first_offset=first_offset,
        next_offset=next_offset,
        reason=f"offsets {first_offset} to {next_offset - 1} were on disk and are missing",
    )


def _reaches(recovery: Recovery, segment: Segment, next_offset: int) -> bool:
    """Whether the last batches of a closed segment are there, by a look at its last headers."""
    entries = segment.last_entries()
    if entries is None:
        return False
    found = segment.base_offset
    try:
        for _, header in segment.walk(entries.position, chunk_bytes=JOIN_BYTES):
            found = header.next_offset
    except CorruptSegment:
        return False
    finally:
        segment.release()
    return found == next_offset or (
        found < next_offset and recovery.explains_gap(segment, found, next_offset)
    )


class SegmentChecker:
    """Goes through one segment batch by batch, rebuilding its indexes on the way."""

    def __init__(
        self, recovery: Recovery, segment: Segment, *, next_base_offset: int | None, is_last: bool
    ) -> None:
        self._recovery = recovery
        self._segment = segment
        self._next_base_offset = next_base_offset
        self._is_last = is_last
        self._ends_at = recovery.covered_offset
        if next_base_offset is not None and (not is_last or next_base_offset <= recovery.covered_offset):
            self._ends_at = next_base_offset
        self._end = segment.size_bytes
        self._buffer = b""
        self._buffer_start = 0
        self._damages: list[Damage] = []
        self._was_cut = False

    def check(self, from_offset: int) -> int:
        """Offset behind the last valid batch."""
        segment = self._segment
        position, expected = self._resume(from_offset)
        while position < self._end:
            header, reason = self._examine(position, expected)
            if reason is None:
                segment.note(
                    position,
                    header.size_bytes,
                    header.last_offset,
                    header.base_timestamp_ms,
                    header.max_timestamp_ms,
                )
                self._recovery.last_epoch = header.leader_epoch
                position += header.size_bytes
                expected = header.next_offset
                continue
            damage = self._damage(position, expected, header, reason)
            if damage is None:
                self._cut(position, reason)
                break
            self._report(damage)
            position, expected = damage.end_position, damage.next_offset
        expected = self._end_of_offsets(position, expected)
        next_offset = expected if self._next_base_offset is None else max(expected, self._next_base_offset)
        segment.extent = (expected if self._is_last else next_offset, position)
        # The indexes of a damaged segment stay as they are: a next start has to find the damage again.
        if not self._recovery.looks_only and not self._damages:
            segment.write_indexes(is_final=self._next_base_offset is not None)
        return expected

    def _end_of_offsets(self, position: int, expected: int) -> int:
        """Where the offsets of this segment end, whether or not the batches reach that far."""
        following = expected if self._next_base_offset is None else self._next_base_offset
        explains_gap = self._recovery.explains_gap
        if expected < following and not self._was_cut and explains_gap(self._segment, expected, following):
            return following
        if expected >= self._ends_at:
            return expected
        if not explains_gap(self._segment, expected, self._ends_at):
            self._report(missing(self._segment.path, position, expected, self._ends_at))
        return self._ends_at

    def _report(self, damage: Damage) -> None:
        self._damages.append(damage)
        self._segment.damages = tuple(self._damages)
        self._recovery.report(damage)

    def _resume(self, from_offset: int) -> tuple[int, int]:
        """(position, offset) of the first batch to check: by index and headers, or the very first in doubt."""
        segment = self._segment
        if from_offset > segment.base_offset:
            found = self._resume_behind(from_offset)
            if found is not None:
                return found
        segment.use_indexes(OffsetIndex(segment.base_offset), TimeIndex(segment.base_offset))
        segment.extent = (segment.base_offset, 0)
        segment.resume(bytes_since_index=0, max_timestamp_ms=-1, max_timestamp_offset=segment.base_offset)
        return 0, segment.base_offset

    def _resume_behind(self, from_offset: int) -> tuple[int, int] | None:
        segment = self._segment
        try:
            offsets, times = segment.offset_index(), segment.time_index()
            indexed_position = position = offsets.position_at_or_before(from_offset - 1)
            offsets.truncate(indexed_position + 1)
            times.truncate(from_offset)
            max_timestamp_ms, max_timestamp_offset = times.last()
            expected = segment.base_offset
            for at, header in segment.walk(position, chunk_bytes=4096):
                if at == indexed_position and offsets and not _entry_fits(offsets, header):
                    return None
                if (
                    self._next_base_offset is None
                    and at != indexed_position
                    and header.base_offset != expected
                ):
                    return None
                if header.base_offset >= from_offset:
                    break
                self._recovery.last_epoch = header.leader_epoch
                if header.max_timestamp_ms > max_timestamp_ms:
                    max_timestamp_ms, max_timestamp_offset = header.max_timestamp_ms, header.last_offset
                position, expected = at + header.size_bytes, header.next_offset
        except CorruptSegment:
            return None
        if expected > from_offset:
            return None
        segment.extent = (expected, position)
        segment.resume(
            bytes_since_index=position - indexed_position,
            max_timestamp_ms=max_timestamp_ms,
            max_timestamp_offset=max_timestamp_offset,
        )
        return position, expected

    # --- one batch ---

    def _bytes_at(self, position: int, count: int) -> memoryview:
        at = position - self._buffer_start
        if at < 0 or at + count > len(self._buffer):
            self._buffer = self._segment.read(min(max(count, CHECK_BYTES), self._end - position), position)
            self._buffer_start, at = position, 0
        return memoryview(self._buffer)[at : at + count]

    def _header_at(self, position: int) -> BatchHeader | None:
        """The header there, if it can be one of a batch that ends within the file."""
        if position + HEADER_BYTES > self._end:
            return None
        header = read_header(self._bytes_at(position, HEADER_BYTES))
        if header.magic != MAGIC or not _LENGTH_MIN <= header.length <= BATCH_BYTES_POSSIBLE:
            return None
        return header if position + header.size_bytes <= self._end else None

    def _examine(self, position: int, expected: int) -> tuple[BatchHeader, str | None]:
        """The batch at position and what is wrong with it, if anything."""
        header = self._header_at(position)
        if header is None:
            return _NO_HEADER, "no whole batch begins here"
        if not checksum_matches(self._bytes_at(position, header.size_bytes)):
            return _NO_HEADER, "the checksum of the batch does not match"
        if header.base_offset < expected or header.last_offset_delta < 0:
            return header, f"the batch begins at offset {header.base_offset}, {expected} is next"
        if header.base_offset > expected and not self._gap_is_genuine(position, header):
            return header, f"the batch begins at offset {header.base_offset}, {expected} is next"
        if header.last_offset - self._segment.base_offset > RELATIVE_OFFSET_MAX:
            return header, f"offset {header.last_offset} cannot be in this segment"
        if self._next_base_offset is not None and header.next_offset > self._next_base_offset:
            return header, f"the next segment begins at offset {self._next_base_offset} already"
        epoch = self._recovery.epoch_at(header.base_offset)
        if epoch is not None and header.leader_epoch != epoch:
            return header, f"the batch has leader epoch {header.leader_epoch}, {epoch} was in force"
        return header, None

    def _gap_is_genuine(self, position: int, header: BatchHeader) -> bool:
        """Compaction leaves gaps, but in closed segments only; the policy may have changed since.

        A flipped bit in a base offset looks like a gap, too, until the next batch contradicts it.
        """
        if self._next_base_offset is None:
            return False
        following = self._header_at(position + header.size_bytes)
        if following is not None:
            return following.base_offset >= header.next_offset
        return header.next_offset <= self._next_base_offset

    # --- what to do about a bad one ---

    def _damage(self, position: int, expected: int, header: BatchHeader, reason: str) -> Damage | None:
        """The damage, up to the next valid batch; None when the file's end is merely torn."""
        found = self._search(position, expected)
        if found is not None:
            end_position, next_offset = found
        elif header is not _NO_HEADER:
            # Whole and with its checksum, so that no crash tore it: something else is wrong. Keep it.
            end_position = position + header.size_bytes
            next_offset = expected + max(1, header.last_offset_delta + 1)
        elif self._is_last and expected >= self._ends_at:
            return None
        else:
            end_position, next_offset = self._end, max(expected, self._ends_at)
        return Damage(
            path=self._segment.path,
            position=position,
            end_position=end_position,
            first_offset=expected,
            next_offset=next_offset,
            reason=reason,
        )

    def _search(self, position: int, expected: int) -> tuple[int, int] | None:
        """(position, base offset) of the next valid batch behind position."""
        start = position + 1
        while start + HEADER_BYTES <= self._end:
            chunk = self._segment.read(min(CHECK_BYTES, self._end - start), start)
            for match in _plausible_headers(expected).finditer(chunk):
                candidate = start + match.start()
                if self._is_valid_behind(candidate, expected):
                    header = self._header_at(candidate)
                    assert header is not None
                    return candidate, header.base_offset
            # A header may lie across two pieces.
            start += max(1, len(chunk) - HEADER_BYTES)
        return None

    def _is_valid_behind(self, position: int, expected: int) -> bool:
        header = self._header_at(position)
        if header is None or header.base_offset < expected or header.last_offset_delta < 0:
            return False
        if self._next_base_offset is not None and header.next_offset > self._next_base_offset:
            return False
        if header.last_offset - self._segment.base_offset > RELATIVE_OFFSET_MAX:
            return False
        epoch = self._recovery.epoch_at(header.base_offset)
        if epoch is not None and header.leader_epoch != epoch:
            return False
        return checksum_matches(self._bytes_at(position, header.size_bytes))

    def _cut(self, position: int, reason: str) -> None:
        bytes_count = self._end - position
        self._end = position
        self._was_cut = True
        next_offset = self._segment.next_offset
        self._segment.extent = (next_offset, position)
        self._segment.cut_to_size()
        self._segment.synced_bytes = min(self._segment.synced_bytes, position)
        self._recovery.bytes_cut += bytes_count
        self._recovery.on_event(
            "torn_tail_cut",
            {
                "path": self._segment.path,
                "position": position,
                "bytes": bytes_count,
                "end_offset": next_offset,
                "reason": reason,
            },
        )


def _entry_fits(offsets: OffsetIndex, header: BatchHeader) -> bool:
    """Whether the last entry of an index speaks of this batch."""
    return offsets.base_offset + offsets.relative_offsets[-1] == header.last_offset


_NO_HEADER = BatchHeader(*([0] * 13))


def _plausible_headers(expected: int) -> re.Pattern[bytes]:
    """Where in raw bytes a batch header could begin whose offset lies not far above the expected one."""
    high = expected >> 32
    highs = b"|".join(re.escape(struct.pack(">I", value)) for value in (high, high + 1))
    return re.compile(rb"(?=(?:" + highs + rb").{4}[\x00-\x06].{7}\x02)", re.DOTALL)
