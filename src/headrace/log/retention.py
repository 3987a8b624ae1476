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
        if not is_active and segments[index + 1].base_offset <= start_offset:
            reason: RetentionReason | None = RetentionReason.START_OFFSET
        else:
            reason = _reason(segment, size_bytes, now_ms, config)
        if reason is None:
            break
        expired.append(ExpiredSegment(base_offset=segment.base_offset, reason=reason))
        size_bytes -= segment.size_bytes
    return RetentionPlan(expired=tuple(expired), rolls_active=len(expired) == len(segments) > 0)


def _reason(
    segment: RetentionSegment, size_bytes: int, now_ms: int, config: LogConfig
) -> RetentionReason | None:
    if "delete" not in config.cleanup_policy:
        return None
    if 0 <= config.retention_ms < now_ms - segment.max_timestamp_ms:
        return RetentionReason.TIME
    # A segment is removed only if the rest is still as large as retention.bytes.
    if 0 <= config.retention_bytes <= size_bytes - segment.size_bytes:
        return RetentionReason.SIZE
    return None
