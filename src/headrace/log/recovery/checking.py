"""Checking the segments of a log at a start: after a clean stop by sizes and the last headers, else batch by batch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise

from headrace.log.checkpoints import CleanStop
from headrace.log.damage import missing_offsets
from headrace.log.errors import CorruptSegment
from headrace.log.recovery.segment_checker import Recovery, SegmentChecker, is_lost
from headrace.log.segment import Segment
from headrace.log.segment_names import LOG_SUFFIX, segment_path
from headrace.log.segments import floor_segment
from headrace.records.batch import HEADER_BYTES

# Mostly enough for the batches after the last entry of an index in one read.
JOIN_BYTES = 8192


def load_tail(segment: Segment) -> bool:
    """Find the end of the active segment after a clean stop; False if the files have changed since."""
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
    """Check every batch from recovery_offset on; the segments that remain, the last one ready for appends."""
    first = floor_segment([segment.base_offset for segment in segments], recovery_offset)
    for closed, after in pairwise(segments[: first + 1]):
        if not _reaches(recovery, closed, after.base_offset):
            checker = SegmentChecker(recovery, closed, next_base_offset=after.base_offset, is_last=False)
            checker.check(closed.base_offset)
    last_with_batches = max(
        (number for number, segment in enumerate(segments) if segment.size_bytes), default=first
    )
    expected = segments[first].base_offset
    number = first
    for number in range(first, len(segments)):
        segment = segments[number]
        if expected != segment.base_offset and number > last_with_batches:
            # The segment before was truncated: this empty one no longer continues it.
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


def is_unchanged(recovery: Recovery, segments: list[Segment], clean_stop: CleanStop | None) -> bool:
    """Whether the files have not changed since a clean stop, as far as sizes and the last headers show."""
    if clean_stop is not None:
        recovery.changed = _changed(clean_stop.segment_bytes, segments)
        if recovery.changed:
            return False
    return load_tail(segments[-1]) and segments[-1].next_offset >= recovery.covered_offset


def _changed(stopped: Mapping[int, int], segments: list[Segment]) -> set[int]:
    """Base offsets of segments whose size changed since a clean stop, or whose next segment is missing."""
    found = {segment.base_offset: segment.size_bytes for segment in segments}
    changed = {base for base, size_bytes in found.items() if stopped.get(base) != size_bytes}
    bases = list(found)
    return changed.union(bases[floor_segment(bases, base)] for base in stopped if base not in found)


def check_first(
    recovery: Recovery, segments: list[Segment], first_offset: int, clean_stop: CleanStop | None
) -> None:
    """Report segments that are missing before the first one. Only after a clean stop is this certain to be damage."""
    first = segments[0]
    if first.base_offset <= first_offset or is_lost(recovery.lost, first_offset, first.base_offset):
        return
    damage = missing_offsets(
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


def _reaches(recovery: Recovery, segment: Segment, next_offset: int) -> bool:
    """Whether a closed segment has its last batches, by its last headers."""
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
