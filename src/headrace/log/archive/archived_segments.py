"""The archived segments of a partition, their list in the partition's folder, and plans what to archive. No I/O.

A segment counts as archived once it is in the list, and its objects are deleted only when it is not.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import asdict, replace

from headrace.log.archive.manifest import Manifest
from headrace.log.config import SAME_AS_RETENTION, LogConfig
from headrace.log.errors import InvalidFile
from headrace.log.retention import RetentionSegment, plan_retention
from headrace.log.segment import Segment
from headrace.log.segment_names import LOG_SUFFIX

LIST_NAME = "archived-segments"
LIST_VERSION = 1


class ArchivedSegment(Struct, frozen=True, kw_only=True):
    """A line of the list: what must be known without reading the archive."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp_ms: int
    """Of the records; -1 if they have none."""
    written_ms: int
    """When the file was last written; it counts if records have no timestamp."""
    aborted_transactions: int
    manifest_crc32c: int

    def for_retention(self) -> RetentionSegment:
        return RetentionSegment(
            base_offset=self.base_offset,
            size_bytes=self.size_bytes,
            max_timestamp_ms=self.max_timestamp_ms if self.max_timestamp_ms >= 0 else self.written_ms,
        )


def entry_of(manifest: Manifest, manifest_crc32c: int) -> ArchivedSegment:
    return ArchivedSegment(
        base_offset=manifest.base_offset,
        next_offset=manifest.next_offset,
        size_bytes=manifest.files[LOG_SUFFIX].size_bytes,
        max_timestamp_ms=manifest.max_timestamp_ms,
        written_ms=manifest.written_ms,
        aborted_transactions=manifest.aborted_transactions,
        manifest_crc32c=manifest_crc32c,
    )


def encode_list(entries: Sequence[ArchivedSegment]) -> bytes:
    """JSON lines; the first has the number of lines that follow."""
    lines = [{"version": LIST_VERSION, "segments": len(entries)}, *(asdict(entry) for entry in entries)]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def decode_list(content: bytes) -> tuple[ArchivedSegment, ...]:
    try:
        head, *lines = [json.loads(line) for line in content.splitlines()]
        if head["version"] != LIST_VERSION or head["segments"] != len(lines):
            raise InvalidFile(f"its first line announces {head['segments']} segments and {len(lines)} follow")
        entries = tuple(ArchivedSegment(**line) for line in lines)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidFile(f"it is not a list of segments: {error!r}") from None
    for before, after in pairwise(entries):
        if after.base_offset < before.next_offset:
            raise InvalidFile(f"segment {after.base_offset} overlaps the one before")
    return entries


def entries_from(archived: tuple[ArchivedSegment, ...], offset: int) -> tuple[ArchivedSegment, ...]:
    """The segment that holds offset, and those after it."""
    first = bisect_right(archived, offset, key=lambda entry: entry.next_offset)
    return archived[first:]


def entries_before(archived: tuple[ArchivedSegment, ...], base_offset: int) -> tuple[ArchivedSegment, ...]:
    """The segments whose base offset is below an offset."""
    return archived[: bisect_left(archived, base_offset, key=lambda entry: entry.base_offset)]


def end_of(archived: Sequence[ArchivedSegment]) -> int:
    """First offset that is not in the archive; -1 if the archive is empty."""
    return archived[-1].next_offset if archived else -1


def plan_uploads(
    segments: Sequence[Segment], archived: Sequence[ArchivedSegment], *, start_offset: int, below_offset: int
) -> list[Segment]:
    """Which segments of a log (oldest first, the active one last) to copy, in this order.

    Only closed ones that end at or below `below_offset`: durable, and without an open transaction. A damaged one, and
    all after it, wait for a repair.
    """
    archived_end = end_of(archived)
    planned: list[Segment] = []
    for segment in segments[:-1]:
        if segment.damages or segment.next_offset > below_offset:
            break
        if segment.base_offset >= archived_end and segment.next_offset > start_offset and segment.size_bytes:
            planned.append(segment)
    return planned


def plan_local_removal(
    segments: Sequence[RetentionSegment], *, archived_end: int, now_ms: int, config: LogConfig
) -> int:
    """How many of the oldest local segments to remove: they are archived, and `local.retention.*` has expired."""
    local = replace(
        config,
        retention_ms=_or_retention(config.local_retention_ms, config.retention_ms),
        retention_bytes=_or_retention(config.local_retention_bytes, config.retention_bytes),
    )
    expired = plan_retention(segments, start_offset=0, now_ms=now_ms, config=local).expired
    count = 0
    for following in segments[1 : len(expired) + 1]:
        if following.base_offset > archived_end:
            break
        count += 1
    return count


def _or_retention(local: int, retention: int) -> int:
    return retention if local == SAME_AS_RETENTION else local
