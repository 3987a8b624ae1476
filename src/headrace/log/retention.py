"""Retention as a plan: which segments at the start of a log are past its time, its size, or its start.

Nothing is removed here; `log_retention` carries the plan out.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct

from headrace.log.config import LogConfig
from headrace.log.segment import Segment


class RetentionReason(Enum):
    """Why a segment is removed."""

    TIME = "its newest record is older than retention.ms"
    SIZE = "the partition is larger than retention.bytes"
    START_OFFSET = "all its records are below the start of the log"


class RetentionSegment(Struct, frozen=True, kw_only=True):
    """What the plan needs to know about a segment."""

    base_offset: int
    size_bytes: int
    max_timestamp_ms: int
    """Of the newest record; if records have no timestamp, when the file was last written."""

    @classmethod
    def of(cls, segment: Segment) -> RetentionSegment:
        return cls(
            base_offset=segment.base_offset,
            size_bytes=segment.size_bytes,
            max_timestamp_ms=segment.newest_ms(),
        )


class ExpiredSegment(Struct, frozen=True, kw_only=True):
    """A segment to remove, and why."""

    base_offset: int
    reason: RetentionReason
    explanation: str


class RetentionPlan(Struct, frozen=True, kw_only=True):
    """The segments to remove: always the oldest ones, without a gap."""

    expired: tuple[ExpiredSegment, ...]
    rolls_active: bool
    """Whether the active segment is removed too, so that an empty one must replace it first."""


def plan_retention(
    segments: Sequence[RetentionSegment], *, start_offset: int, now_ms: int, config: LogConfig
) -> RetentionPlan:
    """Plan for all segments of a log, oldest first, the active one last.

    Time and size count under the `delete` policy alone; records below the start of the log are removed under any.
    """
    expired: list[ExpiredSegment] = []
    size_bytes = sum(segment.size_bytes for segment in segments)
    for index, segment in enumerate(segments):
        is_active = index == len(segments) - 1
        if is_active and segment.size_bytes == 0:
            break
        next_base_offset = None if is_active else segments[index + 1].base_offset
        found = (
            _expired_by_start_offset(segment, next_base_offset, start_offset)
            or _expired_by_time(segment, now_ms, config)
            or _expired_by_size(segment, size_bytes, config)
        )
        if found is None:
            break
        expired.append(found)
        size_bytes -= segment.size_bytes
    return RetentionPlan(expired=tuple(expired), rolls_active=len(expired) == len(segments) > 0)


def _expired_by_start_offset(
    segment: RetentionSegment, next_base_offset: int | None, start_offset: int
) -> ExpiredSegment | None:
    if next_base_offset is None or next_base_offset > start_offset:
        return None
    return ExpiredSegment(
        base_offset=segment.base_offset,
        reason=RetentionReason.START_OFFSET,
        explanation=f"its records end at {next_base_offset - 1} and the log starts at {start_offset}",
    )


def _expired_by_time(segment: RetentionSegment, now_ms: int, config: LogConfig) -> ExpiredSegment | None:
    age_ms = now_ms - segment.max_timestamp_ms
    if "delete" not in config.cleanup_policy or config.retention_ms < 0 or age_ms <= config.retention_ms:
        return None
    return ExpiredSegment(
        base_offset=segment.base_offset,
        reason=RetentionReason.TIME,
        explanation=f"its newest record is {age_ms} ms old and retention.ms is {config.retention_ms}",
    )


def _expired_by_size(segment: RetentionSegment, size_bytes: int, config: LogConfig) -> ExpiredSegment | None:
    # A segment is removed only if the rest is still as large as retention.bytes.
    is_needed = size_bytes - segment.size_bytes < config.retention_bytes
    if "delete" not in config.cleanup_policy or config.retention_bytes < 0 or is_needed:
        return None
    return ExpiredSegment(
        base_offset=segment.base_offset,
        reason=RetentionReason.SIZE,
        explanation=f"the partition holds {size_bytes} bytes and retention.bytes is {config.retention_bytes}",
    )
