"""Names of the files of a segment; they are Kafka's."""

from __future__ import annotations

import os
from collections.abc import Iterable

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
ABORTED_INDEX_SUFFIX = ".txnindex"
SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_INDEX_SUFFIX)


def segment_name(base_offset: int) -> str:
    """Name of the files of a segment, without their suffixes."""
    return f"{base_offset:020d}"


def segment_path(directory: str, base_offset: int) -> str:
    """Path of the files of a segment, without their suffixes."""
    return os.path.join(directory, segment_name(base_offset))


def segment_bases(names: Iterable[str], suffix: str = LOG_SUFFIX) -> list[int]:
    """Offsets in the names of files with this suffix, in order; those of logs are the base offsets of segments."""
    stems = (name.removesuffix(suffix) for name in names if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if stem.isdigit())
