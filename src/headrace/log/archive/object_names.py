"""What the objects of an archived segment are called.

A segment in the archive is a handful of objects, `TOPIC-ID/PARTITION/BASE-OFFSET.log` and others with Kafka's suffixes,
and a `.manifest` that is written last.
"""

from __future__ import annotations

from headrace.log.recovery.snapshots import SNAPSHOT_SUFFIX
from headrace.log.segment_names import SEGMENT_SUFFIXES

MANIFEST_SUFFIX = ".manifest"
OBJECT_SUFFIXES = (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, MANIFEST_SUFFIX)


def object_prefix(topic_id: object, partition: int) -> str:
    return f"{topic_id}/{partition}/"


def object_stem(prefix: str, base_offset: int) -> str:
    return f"{prefix}{base_offset:020d}"


def object_names(prefix: str, base_offset: int) -> list[str]:
    """Every object that a segment may have, the manifest first: without it the others do not count."""
    stem = object_stem(prefix, base_offset)
    return [stem + suffix for suffix in reversed(OBJECT_SUFFIXES)]


def base_offset_of(name: str) -> int | None:
    """Base offset of the segment that an object belongs to."""
    stem = name.rpartition("/")[2].partition(".")[0]
    return int(stem) if stem.isdigit() else None
