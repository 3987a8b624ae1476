"""What is in the archive and what should be: names, manifests, the list of archived segments, and plans. No I/O.

A segment in the archive is a handful of objects, `TOPIC-ID/PARTITION/BASE-OFFSET.log` and its like under Kafka's
suffixes, and a `.manifest` that is written last and says what the others hold. The partition's folder has a list of the
segments that are archived: a segment counts once it is there, and its objects are deleted only when it is not.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

from headrace.log.config import LogConfig
from headrace.log.recovery.snapshots import SNAPSHOT_SUFFIX
from headrace.log.retention import RetentionSegment, plan_retention
from headrace.log.segment import SEGMENT_SUFFIXES, Segment

MANIFEST_SUFFIX = ".manifest"
OBJECT_SUFFIXES = (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, MANIFEST_SUFFIX)
LIST_NAME = "archived-segments"
# Lists of aborted transactions stay at hand when the segment itself is in the archive only: they are small, and asked
# for where nobody may wait.
ABORTED_SUFFIX = ".txnindex.archived"
LIST_VERSION = MANIFEST_VERSION = 1


class InvalidArchiveList(Exception):
    """A list or manifest that is not what its writer wrote; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedSegment:
    """A line of the list: what must be known without asking the archive."""

    base_offset: int
    next_offset: int
    size_bytes: int
    max_timestamp_ms: int
    """Of the records; -1 where they carry none."""
    written_ms: int
    """When the file was last written, which counts where records carry no time."""
    aborted_transactions: int
    manifest_crc32c: int

    def for_retention(self) -> RetentionSegment:
        return RetentionSegment(
            base_offset=self.base_offset,
            size_bytes=self.size_bytes,
            max_timestamp_ms=self.max_timestamp_ms if self.max_timestamp_ms >= 0 else self.written_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSum:
    """Size and CRC-32C of one archived file, as a whole and in pieces that can be read and checked alone."""

    size_bytes: int
    crc32c: int
    chunk_crcs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What the archive itself says of a segment: enough to check every byte, and to know whose it is."""

    topic: str
    topic_id: str
    partition: int
    base_offset: int
    next_offset: int
    max_timestamp_ms: int
    written_ms: int
    aborted_transactions: int
    leader_epochs: tuple[tuple[int, int], ...]
    """(epoch, first offset) of all epochs up to this segment."""
    chunk_bytes: int
    files: Mapping[str, FileSum]
    """By suffix."""
    archived_ms: int


def object_prefix(topic_id: object, partition: int) -> str:
    return f"{topic_id}/{partition}/"


def object_stem(prefix: str, base_offset: int) -> str:
    return f"{prefix}{base_offset:020d}"


def object_names(prefix: str, base_offset: int) -> list[str]:
    """Every object that a segment may have, the manifest first: without it the others are rubbish."""
    stem = object_stem(prefix, base_offset)
    return [stem + suffix for suffix in reversed(OBJECT_SUFFIXES)]


def base_offset_of(name: str) -> int | None:
    """Base offset of the segment that an object belongs to."""
    stem = name.rpartition("/")[2].partition(".")[0]
    return int(stem) if stem.isdigit() else None


# --- manifest and list as bytes ---


def encode_manifest(manifest: Manifest) -> bytes:
    return json.dumps({"version": MANIFEST_VERSION, **asdict(manifest)}).encode()


def decode_manifest(content: bytes) -> Manifest:
    try:
        saved: dict[str, Any] = json.loads(content)
        if saved.pop("version") != MANIFEST_VERSION:
            raise InvalidArchiveList("it was written by a later version")
        files = {
            suffix: FileSum(
                size_bytes=each["size_bytes"], crc32c=each["crc32c"], chunk_crcs=tuple(each["chunk_crcs"])
            )
            for suffix, each in saved.pop("files").items()
        }
        epochs = tuple((epoch, offset) for epoch, offset in saved.pop("leader_epochs"))
        return Manifest(files=files, leader_epochs=epochs, **saved)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArchiveList(f"it is no manifest: {error!r}") from None


def entry_of(manifest: Manifest, manifest_crc32c: int) -> ArchivedSegment:
    return ArchivedSegment(
        base_offset=manifest.base_offset,
        next_offset=manifest.next_offset,
        size_bytes=manifest.files[".log"].size_bytes,
        max_timestamp_ms=manifest.max_timestamp_ms,
        written_ms=manifest.written_ms,
        aborted_transactions=manifest.aborted_transactions,
        manifest_crc32c=manifest_crc32c,
    )


def encode_list(entries: Sequence[ArchivedSegment]) -> bytes:
    """JSON lines; the first says how many follow."""
    lines = [{"version": LIST_VERSION, "segments": len(entries)}, *(asdict(entry) for entry in entries)]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


def decode_list(content: bytes) -> tuple[ArchivedSegment, ...]:
    try:
        head, *lines = [json.loads(line) for line in content.splitlines()]
        if head["version"] != LIST_VERSION or head["segments"] != len(lines):
            raise InvalidArchiveList(f"it promises {head['segments']} segments and has {len(lines)}")
        entries = tuple(ArchivedSegment(**line) for line in lines)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArchiveList(f"it is no list of segments: {error!r}") from None
    for before, behind in pairwise(entries):
        if behind.base_offset < before.next_offset:
            raise InvalidArchiveList(f"segment {behind.base_offset} overlaps the one before")
    return entries


# --- plans ---


def entries_from(archived: tuple[ArchivedSegment, ...], offset: int) -> tuple[ArchivedSegment, ...]:
    """The segment that holds offset, and those behind it."""
    first = bisect_right(archived, offset, key=lambda entry: entry.next_offset)
    return archived[first:]


def entries_before(archived: tuple[ArchivedSegment, ...], base_offset: int) -> tuple[ArchivedSegment, ...]:
    """The segments that begin before an offset."""
    return archived[: bisect_left(archived, base_offset, key=lambda entry: entry.base_offset)]


def end_of(archived: Sequence[ArchivedSegment]) -> int:
    """First offset that is not in the archive; -1 when nothing is."""
    return archived[-1].next_offset if archived else -1


def plan_uploads(
    segments: Sequence[Segment], archived: Sequence[ArchivedSegment], *, start_offset: int, below_offset: int
) -> list[Segment]:
    """Which segments of a log (oldest first, the active one last) are to be copied, in this order.

    Only closed ones that end at or below `below_offset`: durable, and without an open transaction. One that is damaged,
    and all behind it, wait for a person.
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
    """How many of the oldest local segments may go because the archive has them and `local.retention.*` says so."""
    local = replace(
        config,
        retention_ms=config.retention_ms if config.local_retention_ms == -2 else config.local_retention_ms,
        retention_bytes=config.retention_bytes
        if config.local_retention_bytes == -2
        else config.local_retention_bytes,
    )
    expired = plan_retention(segments, start_offset=0, now_ms=now_ms, config=local).expired
    count = 0
    for following in segments[1 : len(expired) + 1]:
        if following.base_offset > archived_end:
            break
        count += 1
    return count
