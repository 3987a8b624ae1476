"""When a log is due for compaction, and which segments a pass covers. Plans are made from plain values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct

from headrace.log.config import LogConfig
from headrace.log.index import NO_TIMESTAMP, TIME_ENTRY_BYTES
from headrace.log.segment import RELATIVE_OFFSET_MAX, Segment
from headrace.records.batch import HEADER_BYTES


class CompactionSegment(Struct, frozen=True, kw_only=True):
    """What the plan needs to know about a segment, closed or active."""

    base_offset: int
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    first_timestamp_ms: int
    """The largest timestamp of the first batch; -1 if the segment is empty."""
    max_timestamp_ms: int

    @classmethod
    def of(cls, segment: Segment) -> CompactionSegment:
        first = next(segment.walk(0, chunk_bytes=HEADER_BYTES), None) if segment.size_bytes else None
        return cls(
            base_offset=segment.base_offset,
            size_bytes=segment.size_bytes,
            index_bytes=segment.index_bytes,
            time_index_bytes=len(segment.time_index()) * TIME_ENTRY_BYTES,
            first_timestamp_ms=NO_TIMESTAMP if first is None else first[1].max_timestamp_ms,
            max_timestamp_ms=segment.largest_timestamp_ms(),
        )


class CompactionPlan(Struct, frozen=True, kw_only=True):
    """A pass over `segments`, from the start of the log to the first segment that must wait."""

    segments: tuple[CompactionSegment, ...]
    first_dirty_offset: int
    end_offset: int
    """The base offset of the first segment that the pass does not cover."""


def plan_compaction(
    segments: Sequence[CompactionSegment],
    *,
    first_dirty_offset: int,
    start_offset: int,
    cleanable_before_offset: int,
    now_ms: int,
    config: LogConfig,
) -> CompactionPlan | None:
    """The pass that is due; None if none is. `segments` are all of the log's; the active one is last and never cleaned.

    `first_dirty_offset` is the cleaner checkpoint's; if it is outside the log, all of the log is dirty.
    Records from `cleanable_before_offset` are not final yet (not durable, or in an open transaction).
    """
    closed = segments[:-1]
    active_base_offset = segments[-1].base_offset
    if not start_offset <= first_dirty_offset <= active_base_offset:
        first_dirty_offset = start_offset
    end_offset = _first_uncleanable_offset(
        segments, first_dirty_offset, cleanable_before_offset, now_ms, config
    )
    cleanable = [segment for segment in closed if segment.base_offset < end_offset]
    dirty = dirty_segments(cleanable, first_dirty_offset, end_offset)
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    if dirty_bytes == 0:
        return None
    dirty_ratio = dirty_bytes / sum(segment.size_bytes for segment in cleanable)
    if dirty_ratio <= config.min_cleanable_dirty_ratio and not _has_waited(dirty, now_ms, config):
        return None
    return CompactionPlan(
        segments=tuple(cleanable), first_dirty_offset=first_dirty_offset, end_offset=end_offset
    )


def _first_uncleanable_offset(
    segments: Sequence[CompactionSegment],
    first_dirty_offset: int,
    cleanable_before_offset: int,
    now_ms: int,
    config: LogConfig,
) -> int:
    """The base offset of the first segment that must wait: not final, too young, or the active one."""
    for segment, following in pairwise(segments):
        is_dirty = following.base_offset > first_dirty_offset
        is_young = (
            config.min_compaction_lag_ms > 0
            and segment.max_timestamp_ms > now_ms - config.min_compaction_lag_ms
        )
        if following.base_offset > cleanable_before_offset or (is_dirty and is_young):
            return segment.base_offset
    return segments[-1].base_offset


def dirty_segments(
    cleanable: Sequence[CompactionSegment], first_dirty_offset: int, end_offset: int
) -> list[CompactionSegment]:
    """The segments with offsets from `first_dirty_offset`; the last one ends at `end_offset`."""
    ends = [segment.base_offset for segment in cleanable[1:]] + [end_offset]
    return [segment for segment, end in zip(cleanable, ends, strict=False) if end > first_dirty_offset]


def _has_waited(dirty: Sequence[CompactionSegment], now_ms: int, config: LogConfig) -> bool:
    """Whether a dirty record has waited for `max.compaction.lag.ms`."""
    timestamps_ms = [segment.first_timestamp_ms for segment in dirty if segment.first_timestamp_ms >= 0]
    return bool(timestamps_ms) and now_ms - min(timestamps_ms) > config.max_compaction_lag_ms


def group_segments(
    segments: Sequence[CompactionSegment], *, end_offset: int, config: LogConfig
) -> list[tuple[CompactionSegment, ...]]:
    """Neighbours that fit into one segment, so that cleaned segments do not become ever smaller."""
    groups: list[list[CompactionSegment]] = []
    next_offsets = [segment.base_offset for segment in segments[1:]] + [end_offset]
    for segment, next_offset in zip(segments, next_offsets, strict=True):
        if groups and _fits([*groups[-1], segment], next_offset, config):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return [tuple(group) for group in groups]


def _fits(group: Sequence[CompactionSegment], next_offset: int, config: LogConfig) -> bool:
    return (
        sum(segment.size_bytes for segment in group) <= config.segment_bytes_max
        and sum(segment.index_bytes for segment in group) <= config.index_bytes_max
        and sum(segment.time_index_bytes for segment in group) <= config.index_bytes_max
        and next_offset - 1 - group[0].base_offset <= RELATIVE_OFFSET_MAX
    )
