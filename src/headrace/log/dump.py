"""The content of the files of a partition, as values; `headrace log dump` prints them.

Reads any of them, also those that Apache Kafka wrote, and a damaged one as far as possible: damage is a value here and
not an error. Nothing is written.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import google_crc32c
from msgspec import Struct
from msgspec.structs import astuple

from headrace.errors import HeadraceError
from headrace.log import checkpoints
from headrace.log.aborted_index import AbortedIndex, AbortedTransaction
from headrace.log.errors import CorruptSegment
from headrace.log.index import OFFSET_ENTRY, TIME_ENTRY
from headrace.log.producer_state import SNAPSHOT_COUNT, SNAPSHOT_ENTRY, SNAPSHOT_HEAD
from headrace.log.recovery.snapshots import SNAPSHOT_SUFFIX
from headrace.log.segment_names import (
    ABORTED_INDEX_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
)
from headrace.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    BatchHeader,
    checksum_matches,
    read_header,
)
from headrace.records.errors import InvalidBatch
from headrace.records.record import Record, decode_records

# Enough for any batch that a default topic accepts, however well it was compressed.
DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024

_SNAPSHOT_CRC_POSITION = 2
_CHECKPOINT_NAMES = (
    checkpoints.CLEANER_OFFSET_NAME,
    checkpoints.LEADER_EPOCH_NAME,
    checkpoints.LOG_START_NAME,
    checkpoints.RECOVERY_POINT_NAME,
    "replication-offset-checkpoint",  # Kafka's
)


class DumpedBatch(Struct, frozen=True, kw_only=True):
    """One batch of a `.log` file."""

    position: int
    header: BatchHeader
    is_checksum_right: bool
    records: tuple[Record, ...] = ()
    """Only if requested, and if they can be decoded."""
    problem: str | None = None


class DumpedIndexEntry(Struct, frozen=True, kw_only=True):
    """One entry of an `.index` file: the batch with this last offset starts at `log_position`."""

    offset: int
    log_position: int


class DumpedTimeIndexEntry(Struct, frozen=True, kw_only=True):
    """One entry of a `.timeindex` file: no record up to `offset` is newer than `timestamp_ms`."""

    timestamp_ms: int
    offset: int


class DumpedProducer(Struct, frozen=True):
    """One producer of a `.snapshot` file, as of its last batch; the fields are those of an entry, in order."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int
    """-1 outside of a transaction."""


class DumpedAborted(AbortedTransaction, frozen=True):
    """One entry of a `.txnindex` file: an aborted transaction, whose marker is at `last_offset`."""


class DumpedCheckpointLine(Struct, frozen=True, kw_only=True):
    """One line of a checkpoint: `topic partition offset`, or `epoch offset` for leader epochs."""

    line: int
    fields: tuple[str, ...]


class DumpedProblem(Struct, frozen=True, kw_only=True):
    """At this position, or from it on, the file is damaged."""

    position: int
    message: str


Dumped = (
    DumpedBatch
    | DumpedIndexEntry
    | DumpedTimeIndexEntry
    | DumpedProducer
    | DumpedAborted
    | DumpedCheckpointLine
    | DumpedProblem
)


def dump(
    path: Path, *, with_records: bool = False, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Dumped]:
    """The content of one file, by its name; raises immediately if nothing can be shown."""
    if not path.is_file():
        raise HeadraceError(f"the file {path} is missing", hint="name a segment or checkpoint file")
    if path.name in _CHECKPOINT_NAMES:
        return dump_checkpoint(path)
    dumps: dict[str, Callable[[Path], Iterator[Dumped]]] = {
        LOG_SUFFIX: partial(dump_log, bytes_max=decompressed_bytes_max if with_records else None),
        OFFSET_INDEX_SUFFIX: dump_index,
        TIME_INDEX_SUFFIX: dump_time_index,
        SNAPSHOT_SUFFIX: dump_snapshot,
        ABORTED_INDEX_SUFFIX: dump_aborted,
    }
    # Unfinished and removed files have a second suffix: 0000.log.deleted, 0000.index.cleaned.
    kind = next((suffix for suffix in path.suffixes if suffix in dumps), None)
    if kind is None:
        raise HeadraceError(
            f"{path.name} is not a file of a partition",
            hint="the name must end in .log, .index, .timeindex, .txnindex or .snapshot, or be a checkpoint",
        )
    if kind != LOG_SUFFIX:
        _base_offset(path)
    return dumps[kind](path)


def _base_offset(path: Path) -> int:
    digits = path.name.partition(".")[0]
    if not (digits.isascii() and digits.isdigit()):
        raise HeadraceError(
            f"{path.name} does not start with a base offset", hint="keep the original name of the file"
        )
    return int(digits)


def dump_log(path: Path, *, bytes_max: int | None) -> Iterator[DumpedBatch | DumpedProblem]:
    """Every batch of a segment up to its end, or to the position where no batch starts.

    With `bytes_max`, the bound of a decompressed batch, also the records.
    """
    if os.path.getsize(path) == 0:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        position = 0
        while position < len(content):
            problem = _framing_problem(content, position)
            if problem is not None:
                yield DumpedProblem(position=position, message=problem)
                return
            header = read_header(content[position : position + HEADER_BYTES])
            batch = content[position : position + header.size_bytes]
            yield _dump_batch(batch, position, header, bytes_max)
            position += header.size_bytes


def _framing_problem(content: mmap.mmap, position: int) -> str | None:
    left_bytes = len(content) - position
    if left_bytes < HEADER_BYTES:
        return f"{left_bytes} bytes are too few for a batch: a torn tail"
    header = read_header(content[position : position + HEADER_BYTES])
    if header.magic != MAGIC:
        return f"magic {header.magic} is not that of a record batch of format v2"
    if header.length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        return f"a batch cannot have length {header.length}"
    if header.size_bytes > left_bytes:
        return f"a batch of {header.size_bytes} bytes starts here, {left_bytes} are left: torn, or damaged"
    return None


def _dump_batch(batch: bytes, position: int, header: BatchHeader, bytes_max: int | None) -> DumpedBatch:
    if not checksum_matches(batch):
        return DumpedBatch(
            position=position, header=header, is_checksum_right=False, problem="the checksum does not match"
        )
    records: tuple[Record, ...] = ()
    problem: str | None = None
    try:
        if bytes_max is not None:
            records = tuple(decode_records(batch, bytes_max=bytes_max))
    except InvalidBatch as error:
        problem = error.message
    return DumpedBatch(
        position=position, header=header, is_checksum_right=True, records=records, problem=problem
    )


def dump_index(path: Path) -> Iterator[DumpedIndexEntry | DumpedProblem]:
    """Every entry of an offset index, and where offsets do not increase."""
    base_offset = _base_offset(path)
    last_offset = -1
    for position, (relative_offset, log_position) in _entries(path, OFFSET_ENTRY):
        if position and relative_offset == 0:
            return  # the unused rest of a file that Kafka allocated in advance
        offset = base_offset + relative_offset
        if offset <= last_offset:
            yield DumpedProblem(position=position, message=f"offset {offset} follows {last_offset}")
        yield DumpedIndexEntry(offset=offset, log_position=log_position)
        last_offset = offset
    yield from _rest(path, OFFSET_ENTRY)


def dump_time_index(path: Path) -> Iterator[DumpedTimeIndexEntry | DumpedProblem]:
    """Every entry of a time index, and where timestamps do not increase."""
    base_offset = _base_offset(path)
    last_timestamp_ms = -1
    for position, (timestamp_ms, relative_offset) in _entries(path, TIME_ENTRY):
        if position and relative_offset == 0 and timestamp_ms == 0:
            return  # the unused rest of a file that Kafka allocated in advance
        if timestamp_ms < last_timestamp_ms:
            message = f"timestamp {timestamp_ms} follows {last_timestamp_ms}"
            yield DumpedProblem(position=position, message=message)
        yield DumpedTimeIndexEntry(timestamp_ms=timestamp_ms, offset=base_offset + relative_offset)
        last_timestamp_ms = timestamp_ms
    yield from _rest(path, TIME_ENTRY)


def _entries(path: Path, entry: struct.Struct) -> Iterator[tuple[int, tuple[int, int]]]:
    content = path.read_bytes()  # an index is bounded by segment.index.bytes
    for position in range(0, len(content) - entry.size + 1, entry.size):
        first, second = entry.unpack_from(content, position)
        yield position, (first, second)


def _rest(path: Path, entry: struct.Struct) -> Iterator[DumpedProblem]:
    size_bytes = os.path.getsize(path)
    rest_bytes = size_bytes % entry.size
    if rest_bytes:
        message = f"{rest_bytes} bytes are too few for an entry of {entry.size}"
        yield DumpedProblem(position=size_bytes - rest_bytes, message=message)


def dump_snapshot(path: Path) -> Iterator[DumpedProducer | DumpedProblem]:
    """Every producer of a snapshot."""
    content = path.read_bytes()
    entries_position = SNAPSHOT_HEAD.size + SNAPSHOT_COUNT.size
    if len(content) < entries_position:
        yield DumpedProblem(position=0, message=f"{len(content)} bytes are too few for a snapshot")
        return
    version, crc = SNAPSHOT_HEAD.unpack_from(content)
    if version != 1:
        yield DumpedProblem(position=0, message=f"snapshot version {version} is not supported")
        return
    if google_crc32c.value(content[SNAPSHOT_HEAD.size :]) != crc:
        yield DumpedProblem(position=_SNAPSHOT_CRC_POSITION, message="the checksum does not match")
    (count,) = SNAPSHOT_COUNT.unpack_from(content, SNAPSHOT_HEAD.size)
    held_count = (len(content) - entries_position) // SNAPSHOT_ENTRY.size
    for index in range(min(count, held_count)):
        values = SNAPSHOT_ENTRY.unpack_from(content, entries_position + index * SNAPSHOT_ENTRY.size)
        yield DumpedProducer(*values)
    if not 0 <= count <= held_count:
        message = f"the header announces {count} producers and the file has room for {held_count}"
        yield DumpedProblem(position=SNAPSHOT_HEAD.size, message=message)


def dump_aborted(path: Path) -> Iterator[DumpedAborted | DumpedProblem]:
    """Every aborted transaction that a segment's list has."""
    try:
        entries = AbortedIndex.decode(path.read_bytes(), str(path)).entries
    except CorruptSegment as error:
        yield DumpedProblem(position=error.position, message=error.reason)
        return
    for entry in entries:
        yield DumpedAborted(*astuple(entry))


def dump_checkpoint(path: Path) -> Iterator[DumpedCheckpointLine | DumpedProblem]:
    """Every line of a checkpoint after its version and its count."""
    position = 0
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        text = line.decode("utf-8", "replace").strip()
        if number == 1 and text != "0":
            yield DumpedProblem(position=0, message=f"checkpoint version {text!r} is not supported")
        elif number == 2 and text != str(len(lines) - 2):
            message = f"the header announces {text!r} lines and {len(lines) - 2} follow"
            yield DumpedProblem(position=position, message=message)
        elif number > 2:
            yield DumpedCheckpointLine(line=number, fields=tuple(text.split()))
        position += len(line)
    if len(lines) < 2:
        yield DumpedProblem(position=position, message="the file ends before its version and count")
