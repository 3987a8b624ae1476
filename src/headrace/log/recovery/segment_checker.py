"""Checking a segment batch by batch, and what to do about an invalid one.

Bytes after the last valid batch are a torn tail and are truncated, but only above the recovery point: everything below
was on disk. Missing bytes below it, and invalid bytes with a valid batch after them, are damage: they are reported and
never truncated.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_right
from collections.abc import Container, Sequence

from msgspec import Struct, field
from msgspec.structs import asdict

from headrace.log.checkpoints import EpochStart
from headrace.log.damage import Damage, missing_offsets
from headrace.log.errors import CorruptSegment
from headrace.log.folder import EventSink
from headrace.log.index import OffsetIndex, TimeIndex
from headrace.log.segment import RELATIVE_OFFSET_MAX, Segment
from headrace.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    checksum_matches,
    read_header,
)

# A log is read in pieces of this size; a larger batch is read whole.
CHECK_BYTES = 1024 * 1024
# No request may be larger (socket.request.max.bytes), so no batch can be: a larger length is damaged.
BATCH_BYTES_POSSIBLE = 104_857_600
_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD_BYTES


class Recovery(Struct, kw_only=True):
    """What checking the segments needs to know, and what it has found."""

    on_event: EventSink
    epochs: Sequence[EpochStart]
    """Known epochs; empty if their file is lost, and then the epochs of the batches are used."""
    damages: list[Damage] = field(default_factory=list)
    bytes_truncated: int = 0
    last_epoch: int = -1
    """Epoch of the last batch that was read."""
    is_dry_run: bool = False
    """Nothing is truncated and no index is written."""
    covered_offset: int = 0
    """Everything below was on disk: if any of it is missing, that is damage, and its offsets are not used again."""
    cleaned_offset: int = 0
    """Compaction may have left gaps below."""
    lost: Sequence[tuple[int, int]] = ()
    """(first, next offset) of ranges that a repair has recorded as lost."""
    changed: Container[int] = ()
    """Base offsets of segments that changed since a clean stop, or whose next segment is missing."""

    def explains_gap(self, segment: Segment, first_offset: int, next_offset: int) -> bool:
        """Whether offsets may be missing at the end of a segment without damage."""
        if is_lost(self.lost, first_offset, next_offset):
            return True
        return next_offset <= self.cleaned_offset and segment.base_offset not in self.changed

    def report(self, damage: Damage) -> None:
        self.damages.append(damage)
        hint = f"stop the broker and run `headrace log repair {os.path.dirname(damage.path)}`"
        self.on_event("segment_damaged", {**asdict(damage), "hint": hint})

    def epoch_at(self, offset: int) -> int | None:
        """Epoch that a batch with this offset must have."""
        found = bisect_right(self.epochs, offset, key=lambda entry: entry.start_offset)
        return self.epochs[found - 1].epoch if found else None


def is_lost(lost: Sequence[tuple[int, int]], first_offset: int, next_offset: int) -> bool:
    """Whether a repair has recorded these offsets as lost."""
    return any(first <= first_offset and next_offset <= following for first, following in lost)


class SegmentChecker:
    """Reads one segment batch by batch and rebuilds its indexes."""

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
        self._was_truncated = False

    def check(self, from_offset: int) -> int:
        """Returns the offset after the last valid batch."""
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
                self._truncate(position, reason)
                break
            self._report(damage)
            position, expected = damage.end_position, damage.next_offset
        expected = self._end_of_offsets(position, expected)
        next_offset = expected if self._next_base_offset is None else max(expected, self._next_base_offset)
        segment.extent = (expected if self._is_last else next_offset, position)
        # The indexes of a damaged segment stay unchanged: the next start has to find the damage again.
        if not self._recovery.is_dry_run and not self._damages:
            segment.write_indexes(is_final=self._next_base_offset is not None)
        return expected

    def _end_of_offsets(self, position: int, expected: int) -> int:
        """Where the offsets of this segment end, even if the last batches are missing."""
        following = expected if self._next_base_offset is None else self._next_base_offset
        explains_gap = self._recovery.explains_gap
        if (
            expected < following
            and not self._was_truncated
            and explains_gap(self._segment, expected, following)
        ):
            return following
        if expected >= self._ends_at:
            return expected
        if not explains_gap(self._segment, expected, self._ends_at):
            self._report(missing_offsets(self._segment.path, position, expected, self._ends_at))
        return self._ends_at

    def _report(self, damage: Damage) -> None:
        self._damages.append(damage)
        self._segment.damages = tuple(self._damages)
        self._recovery.report(damage)

    def _resume(self, from_offset: int) -> tuple[int, int]:
        """(position, offset) of the first batch to check: by index and headers; the very first in doubt."""
        segment = self._segment
        if from_offset > segment.base_offset:
            found = self._resume_after(from_offset)
            if found is not None:
                return found
        segment.use_indexes(OffsetIndex(segment.base_offset), TimeIndex(segment.base_offset))
        segment.extent = (segment.base_offset, 0)
        segment.resume(bytes_since_index=0, max_timestamp_ms=-1, max_timestamp_offset=segment.base_offset)
        return 0, segment.base_offset

    def _resume_after(self, from_offset: int) -> tuple[int, int] | None:
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
        """The header at a position, if it can be one of a batch that ends within the file."""
        if position + HEADER_BYTES > self._end:
            return None
        header = read_header(self._bytes_at(position, HEADER_BYTES))
        if header.magic != MAGIC or not _LENGTH_MIN <= header.length <= BATCH_BYTES_POSSIBLE:
            return None
        return header if position + header.size_bytes <= self._end else None

    def _examine(self, position: int, expected: int) -> tuple[BatchHeader, str | None]:
        """The batch at a position, and the reason why it is invalid, if it is."""
        header = self._header_at(position)
        if header is None:
            return _NO_HEADER, "no whole batch starts here"
        if not checksum_matches(self._bytes_at(position, header.size_bytes)):
            return _NO_HEADER, "the checksum of the batch does not match"
        return header, self._problem(position, header, expected)

    def _problem(self, position: int, header: BatchHeader, expected: int) -> str | None:
        """Why a batch cannot be at a position, if its checksum matches."""
        is_behind = header.base_offset < expected or header.last_offset_delta < 0
        if is_behind or (header.base_offset > expected and not self._gap_is_genuine(position, header)):
            return f"the batch starts at offset {header.base_offset}, expected is {expected}"
        if header.last_offset - self._segment.base_offset > RELATIVE_OFFSET_MAX:
            return f"offset {header.last_offset} cannot be in this segment"
        if self._next_base_offset is not None and header.next_offset > self._next_base_offset:
            return f"the next segment starts at offset {self._next_base_offset} already"
        epoch = self._recovery.epoch_at(header.base_offset)
        if epoch is not None and header.leader_epoch != epoch:
            return f"the batch has leader epoch {header.leader_epoch}, expected is {epoch}"
        return None

    def _gap_is_genuine(self, position: int, header: BatchHeader) -> bool:
        """Compaction leaves gaps, but in closed segments only; the policy may have changed since.

        A flipped bit in a base offset looks like a gap, too, unless the next batch contradicts it.
        """
        if self._next_base_offset is None:
            return False
        following = self._header_at(position + header.size_bytes)
        if following is not None:
            return following.base_offset >= header.next_offset
        return header.next_offset <= self._next_base_offset

    # --- an invalid batch ---

    def _damage(self, position: int, expected: int, header: BatchHeader, reason: str) -> Damage | None:
        """The damage, up to the next valid batch; None if it is a torn tail."""
        found = self._search(position, expected)
        if found is not None:
            end_position, next_offset = found
        elif header is not _NO_HEADER:
            # It is whole and its checksum matches, so that no crash tore it: keep it.
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
        """(position, base offset) of the next valid batch after a position."""
        start = position + 1
        while start + HEADER_BYTES <= self._end:
            chunk = self._segment.read(min(CHECK_BYTES, self._end - start), start)
            for match in _plausible_headers(expected).finditer(chunk):
                candidate = start + match.start()
                if self._is_valid_after(candidate, expected):
                    header = self._header_at(candidate)
                    assert header is not None
                    return candidate, header.base_offset
            # A header may be in two pieces.
            start += max(1, len(chunk) - HEADER_BYTES)
        return None

    def _is_valid_after(self, position: int, expected: int) -> bool:
        header = self._header_at(position)
        return (
            header is not None
            and header.base_offset >= expected
            and self._problem(position, header, header.base_offset) is None
            and checksum_matches(self._bytes_at(position, header.size_bytes))
        )

    def _truncate(self, position: int, reason: str) -> None:
        bytes_count = self._end - position
        self._end = position
        self._was_truncated = True
        next_offset = self._segment.next_offset
        self._segment.extent = (next_offset, position)
        self._segment.truncate()
        self._segment.synced_bytes = min(self._segment.synced_bytes, position)
        self._recovery.bytes_truncated += bytes_count
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
    """Whether the last entry of an index is of this batch."""
    return offsets.base_offset + offsets.relative_offsets[-1] == header.last_offset


_NO_HEADER = BatchHeader(*([0] * 13))


def _plausible_headers(expected: int) -> re.Pattern[bytes]:
    """Matches where a batch header with an offset not far above the expected one could start."""
    high = expected >> 32
    highs = b"|".join(re.escape(struct.pack(">I", value)) for value in (high, high + 1))
    return re.compile(rb"(?=(?:" + highs + rb").{4}[\x00-\x06].{7}\x02)", re.DOTALL)
