"""Small text files in Kafka's formats: offsets per partition in the data folder, leader epochs in each partition.

Reading is tolerant: a damaged file is reported and taken as absent, since everything in it can be found out again by
reading more of the log. Writing replaces the whole file in one step.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from headrace.log.filesystem import FileSystem
from headrace.values import value

RECOVERY_POINT_NAME = "recovery-point-offset-checkpoint"
LOG_START_NAME = "log-start-offset-checkpoint"
CLEAN_SHUTDOWN_NAME = ".kafka_cleanshutdown"
CLEANER_OFFSET_NAME = "cleaner-offset-checkpoint"
LEADER_EPOCH_NAME = "leader-epoch-checkpoint"
_VERSION = "0"

OffsetsByPartition = dict[tuple[str, int], int]


class InvalidCheckpoint(Exception):
    """The file is there but not what its writer wrote; the message says where."""


@value
class EpochStart:
    """Records from start_offset on were written under this leader epoch, until the next one begins."""

    epoch: int
    start_offset: int


def read_offsets(files: FileSystem, path: str) -> OffsetsByPartition:
    """Offsets by (topic, partition). Missing: empty. Damaged: InvalidCheckpoint, and the caller reports and goes on."""
    offsets: OffsetsByPartition = {}
    for number, line in enumerate(_read_lines(files, path), start=3):
        # Topic names have no spaces; the two numbers are last.
        topic, _, rest = line.partition(" ")
        partition, _, offset = rest.partition(" ")
        if not topic or not _is_number(partition) or not _is_number(offset):
            raise InvalidCheckpoint(
                f"{path} line {number} is not a topic, a partition and an offset: {line!r}"
            )
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
    epochs: list[EpochStart] = []
    for number, line in enumerate(_read_lines(files, path), start=3):
        epoch, _, offset = line.partition(" ")
        if not _is_number(epoch) or not _is_number(offset):
            raise InvalidCheckpoint(f"{path} line {number} is not an epoch and an offset: {line!r}")
        entry = EpochStart(epoch=int(epoch), start_offset=int(offset))
        if epochs and (entry.epoch <= epochs[-1].epoch or entry.start_offset < epochs[-1].start_offset):
            raise InvalidCheckpoint(f"{path} line {number} goes back: {line!r}")
        epochs.append(entry)
    return epochs


def write_epochs(files: FileSystem, path: str, epochs: Iterable[EpochStart], *, durable: bool = True) -> None:
    lines = [f"{entry.epoch} {entry.start_offset}" for entry in epochs]
    _write_lines(files, path, lines, durable=durable)


def read_cleaner_offset(files: FileSystem, path: str) -> int:
    """Offset up to which a partition was compacted. Missing: 0."""
    lines = _read_lines(files, path)
    if lines and (len(lines) != 1 or not _is_number(lines[0])):
        raise InvalidCheckpoint(f"{path} is not one offset")
    return int(lines[0]) if lines else 0


def write_cleaner_offset(files: FileSystem, path: str, offset: int) -> None:
    _write_lines(files, path, [str(offset)])


def mark_clean_shutdown(files: FileSystem, data_directory: str) -> None:
    """Say that every log was closed properly; the last thing a broker does."""
    files.write_whole(os.path.join(data_directory, CLEAN_SHUTDOWN_NAME), b'{"version":0}')


def take_clean_shutdown_mark(files: FileSystem, data_directory: str) -> bool:
    """Whether the last broker here stopped cleanly. The mark is gone afterwards: it is true for one start only."""
    path = os.path.join(data_directory, CLEAN_SHUTDOWN_NAME)
    try:
        files.remove(path)
    except FileNotFoundError:
        return False
    files.sync_directory(data_directory)
    return True


def _read_lines(files: FileSystem, path: str) -> list[str]:
    try:
        content = files.read_whole(path)
    except FileNotFoundError:
        return []
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise InvalidCheckpoint(f"{path} is not text") from None
    if len(lines) < 2 or lines[0] != _VERSION or not _is_number(lines[1]):
        raise InvalidCheckpoint(f"{path} does not begin with version {_VERSION} and a count")
    if len(lines) - 2 != int(lines[1]):
        raise InvalidCheckpoint(f"{path} promises {lines[1]} lines and has {len(lines) - 2}")
    return lines[2:]


def _write_lines(files: FileSystem, path: str, lines: list[str], *, durable: bool = True) -> None:
    content = "\n".join([_VERSION, str(len(lines)), *lines]) + "\n"
    files.write_whole(path, content.encode(), durable=durable)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
