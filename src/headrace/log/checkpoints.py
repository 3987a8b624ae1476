"""Small text files in Kafka's formats: offsets per partition in the data folder, leader epochs in each partition.

A damaged file is reported and treated as missing, because its content can be found by reading more of the log.
Writing replaces the whole file atomically. The mark of a clean stop (`CleanStop`) has more content than Kafka's, and
a checksum: with it a start notices changed files without reading the logs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from itertools import pairwise
from zlib import crc32

from msgspec import Struct

from headrace.log.errors import InvalidFile
from headrace.log.filesystem import FileSystem

RECOVERY_POINT_NAME = "recovery-point-offset-checkpoint"
LOG_START_NAME = "log-start-offset-checkpoint"
CLEAN_SHUTDOWN_NAME = ".kafka_cleanshutdown"
CLEANER_OFFSET_NAME = "cleaner-offset-checkpoint"
LEADER_EPOCH_NAME = "leader-epoch-checkpoint"
LOST_OFFSETS_NAME = "lost-offsets-checkpoint"
_VERSION = "0"

OffsetsByPartition = dict[tuple[str, int], int]


class EpochStart(Struct, frozen=True, kw_only=True):
    """Records from start_offset on were written under this leader epoch, until the next one starts."""

    epoch: int
    start_offset: int


class CleanStop(Struct, frozen=True, kw_only=True):
    """The state of a log when it was closed: all of it was on disk."""

    start_offset: int
    end_offset: int
    segment_bytes: Mapping[int, int]
    """Size of each segment by its base offset."""


class LogCheckpoint(Struct, frozen=True):
    """What is known of a log before it is opened."""

    was_clean: bool = False
    clean_stop: CleanStop | None = None
    """How the log was closed, if that is known: with it, a missing file is noticed, too."""
    recovery_offset: int = 0
    """Everything below was on disk."""
    start_offset: int | None = None


def read_offsets(files: FileSystem, path: str) -> OffsetsByPartition:
    """Offsets by (topic, partition). Missing: empty. Damaged: InvalidFile, which the caller reports."""
    offsets: OffsetsByPartition = {}
    for number, line in enumerate(_read_lines(files, path), start=3):
        # Topic names have no spaces; the two numbers are last.
        topic, _, rest = line.partition(" ")
        partition, _, offset = rest.partition(" ")
        if not topic or not _is_number(partition) or not _is_number(offset):
            raise InvalidFile(f"{path} line {number} is not a topic, a partition and an offset: {line!r}")
        offsets[topic, int(partition)] = int(offset)
    return offsets


def write_offsets(files: FileSystem, path: str, offsets: Mapping[tuple[str, int], int]) -> None:
    _write_lines(
        files,
        path,
        [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())],
    )


def read_epochs(files: FileSystem, path: str) -> list[EpochStart]:
    """Leader epochs, oldest first. Missing: empty."""
    epochs = [
        EpochStart(epoch=epoch, start_offset=offset)
        for epoch, offset in _read_pairs(files, path, "an epoch and an offset")
    ]
    for before, after in pairwise(epochs):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            raise InvalidFile(f"{path}: epoch {after.epoch} is below the line before")
    return epochs


def write_epochs(files: FileSystem, path: str, epochs: Iterable[EpochStart], *, durable: bool = True) -> None:
    lines = [f"{entry.epoch} {entry.start_offset}" for entry in epochs]
    _write_lines(files, path, lines, durable=durable)


def read_lost_offsets(files: FileSystem, path: str) -> list[tuple[int, int]]:
    """(first, next offset) of each range that a repair has recorded as lost. Missing: empty."""
    return _read_pairs(files, path, "two offsets")


def write_lost_offsets(files: FileSystem, path: str, ranges: Iterable[tuple[int, int]]) -> None:
    _write_lines(files, path, [f"{first} {following}" for first, following in sorted(ranges)])


def read_cleaner_offsets(files: FileSystem, path: str) -> tuple[int, int]:
    """Offset up to which a partition was compacted, and the one up to which segments may have been. Missing: 0."""
    lines = _read_lines(files, path)
    if len(lines) > 2 or not all(_is_number(line) for line in lines):
        raise InvalidFile(f"{path} is not one offset or two")
    return (int(lines[0]), int(lines[-1])) if lines else (0, 0)


def write_cleaner_offsets(files: FileSystem, path: str, offset: int, *, reach: int) -> None:
    """`reach` is written before segments are replaced, `offset` after it."""
    _write_lines(files, path, [str(offset)] if reach == offset else [str(offset), str(reach)])


def mark_clean_shutdown(
    files: FileSystem, data_directory: str, logs: Mapping[tuple[str, int], CleanStop]
) -> None:
    """Write the state of every closed log; the last step of a clean stop."""
    content = [
        [topic, partition, stop.start_offset, stop.end_offset, sorted(stop.segment_bytes.items())]
        for (topic, partition), stop in sorted(logs.items())
    ]
    mark = {"version": 0, "logs": content, "crc32": _checksum(content)}
    files.write_whole(os.path.join(data_directory, CLEAN_SHUTDOWN_NAME), json.dumps(mark).encode())


def has_clean_shutdown_mark(files: FileSystem, data_directory: str) -> bool:
    return CLEAN_SHUTDOWN_NAME in dict(files.list_directory(data_directory))


def take_clean_shutdown_mark(
    files: FileSystem, data_directory: str
) -> dict[tuple[str, int], CleanStop] | None:
    """The state of the logs after the last stop; None unless it was clean. InvalidFile for a damaged mark.

    The mark is removed: it is valid for one start only. A mark without logs is of an older version.
    """
    path = os.path.join(data_directory, CLEAN_SHUTDOWN_NAME)
    try:
        content = files.read_whole(path)
        files.remove(path)
    except FileNotFoundError:
        return None
    files.sync_directory(data_directory)
    try:
        mark = json.loads(content)
        logs = mark.get("logs", [])
        if logs and mark["crc32"] != _checksum(logs):
            raise ValueError("its checksum does not match")
        return {
            (topic, partition): CleanStop(
                start_offset=start_offset, end_offset=end_offset, segment_bytes=dict(segment_bytes)
            )
            for topic, partition, start_offset, end_offset, segment_bytes in logs
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidFile(f"{path} is damaged: {error}") from None


def _checksum(logs: object) -> int:
    return crc32(json.dumps(logs).encode())


def _read_pairs(files: FileSystem, path: str, expected: str) -> list[tuple[int, int]]:
    """Lines of two numbers."""
    pairs: list[tuple[int, int]] = []
    for number, line in enumerate(_read_lines(files, path), start=3):
        first, _, second = line.partition(" ")
        if not _is_number(first) or not _is_number(second):
            raise InvalidFile(f"{path} line {number} is not {expected}: {line!r}")
        pairs.append((int(first), int(second)))
    return pairs


def _read_lines(files: FileSystem, path: str) -> list[str]:
    try:
        content = files.read_whole(path)
    except FileNotFoundError:
        return []
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise InvalidFile(f"{path} is not text") from None
    if len(lines) < 2 or lines[0] != _VERSION or not _is_number(lines[1]):
        raise InvalidFile(f"{path} does not start with version {_VERSION} and a count")
    if len(lines) - 2 != int(lines[1]):
        raise InvalidFile(f"{path} announces {lines[1]} lines and has {len(lines) - 2}")
    return lines[2:]


def _write_lines(files: FileSystem, path: str, lines: list[str], *, durable: bool = True) -> None:
    content = "\n".join([_VERSION, str(len(lines)), *lines]) + "\n"
    files.write_whole(path, content.encode(), durable=durable)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
