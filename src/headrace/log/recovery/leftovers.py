"""Unfinished files of an earlier process: opening a partition finishes or removes them.

The suffixes are Kafka's: `.cleaned` is an unfinished compaction and is removed; a log with `.swap` is a finished one,
and replaces its source segments; `.deleted` was waiting for its removal; `.repaired` is an interrupted
repair.
"""

from __future__ import annotations

import os
import uuid

from headrace.log.filesystem import FileSystem
from headrace.log.folder import EventSink
from headrace.log.segment import Segment
from headrace.log.segment_names import LOG_SUFFIX, SEGMENT_SUFFIXES, segment_name, segment_path

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
DELETED_SUFFIX = ".deleted"
TEMPORARY_SUFFIX = ".tmp"
REPAIRED_SUFFIX = ".repaired"
_DROPPED_SUFFIXES = (CLEANED_SUFFIX, DELETED_SUFFIX, TEMPORARY_SUFFIX, REPAIRED_SUFFIX)
DELETED_DIRECTORY_SUFFIX = "-delete"
# What file systems allow for one name.
NAME_BYTES_MAX = 255


def tidy(files: FileSystem, directory: str, on_event: EventSink) -> dict[str, int]:
    """Finish or remove unfinished files; the files that remain and their sizes.

    May itself be interrupted at any point and run again.
    """
    sizes = dict(files.list_directory(directory))
    swapped = sorted(name for name in sizes if name.endswith(LOG_SUFFIX + SWAP_SUFFIX))
    for name in swapped:
        _finish_swap(files, directory, name, set(sizes))
        on_event("compaction_swap_finished", {"path": os.path.join(directory, name)})
    if swapped:
        sizes = dict(files.list_directory(directory))
    stale = [name for name in sizes if name.endswith((*_DROPPED_SUFFIXES, SWAP_SUFFIX))]
    for name in stale:
        files.remove(os.path.join(directory, name))
        del sizes[name]
    if swapped or stale:
        files.sync_directory(directory)
    return sizes


def _finish_swap(files: FileSystem, directory: str, name: str, names: set[str]) -> None:
    """Rename the compacted segment and remove the segments whose offsets it covers."""
    base = int(name.partition(".")[0])
    next_offset = _end_of_swapped(files, directory, name, base)
    for other in sorted(names):
        stem, _, suffix = other.partition(".")
        if "." + suffix in SEGMENT_SUFFIXES and stem.isdigit() and base < int(stem) < next_offset:
            files.remove(os.path.join(directory, other))
    stem = segment_path(directory, base)
    # The log is last: while it has the suffix, this can be run again.
    for suffix in reversed(SEGMENT_SUFFIXES):
        if segment_name(base) + suffix + SWAP_SUFFIX in names:
            files.rename(stem + suffix + SWAP_SUFFIX, stem + suffix)
        elif segment_name(base) + suffix in names:
            # The index of the replaced segment does not belong to the new log.
            files.remove(stem + suffix)


def _end_of_swapped(files: FileSystem, directory: str, name: str, base: int) -> int:
    path = os.path.join(directory, name)
    segment = Segment(
        files=files,
        stem=segment_path(directory, base),
        base_offset=base,
        size_bytes=files.size(path),
        suffix=SWAP_SUFFIX,
    )
    next_offset = base
    for _, header in segment.walk(0):
        next_offset = header.next_offset
    segment.release()
    return next_offset


def rename_for_deletion(files: FileSystem, directory: str) -> str:
    """Rename the directory of a partition, so that its name is free immediately and the next start removes it."""
    parent, name = os.path.split(directory)
    suffix = f".{uuid.uuid4().hex}{DELETED_DIRECTORY_SUFFIX}"
    aside = os.path.join(parent, name[: NAME_BYTES_MAX - len(suffix)] + suffix)
    files.rename(directory, aside)
    files.sync_directory(os.path.dirname(directory))
    return aside


def remove_directory_tree(files: FileSystem, directory: str) -> None:
    """Remove a directory that was renamed for deletion."""
    assert directory.endswith(DELETED_DIRECTORY_SUFFIX), directory
    for name, _ in files.list_directory(directory):
        files.remove(os.path.join(directory, name))
    files.remove_directory(directory)
