"""The content of the files of a partition, as values for people to read.

Reads any of them, also those that Apache Kafka wrote, and goes on as far as it can in a damaged one: a fault
is a value here and not an error. Nothing is ever written. How it looks is for the command line to decide.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import google_crc32c
from msgspec import Struct
from msgspec.structs import asdict

from headrace.errors import HeadraceError
from headrace.log.aborted_index import AbortedIndex
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

_INDEX_ENTRY = struct.Struct(">ii")
_TIME_INDEX_ENTRY = struct.Struct(">qi")
_SNAPSHOT_HEAD = struct.Struct(">hI")
_SNAPSHOT_CRC_POSITION = 2
_SNAPSHOT_COUNT = struct.Struct(">i")
_SNAPSHOT_ENTRY = struct.Struct(">qhiqiqiq")
_CHECKPOINT_NAMES = frozenset(
    {
        "cleaner-offset-checkpoint",
        "leader-epoch-checkpoint",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    }
)


class CannotDump(HeadraceError):
    """The file is missing, or is none of a partition's."""


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


class DumpedProducer(Struct, frozen=True, kw_only=True):
    """One producer of a `.snapshot` file, as of its last batch."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int
    coordinator_epoch: int
    transaction_first_offset: int
    """-1 outside of a transaction."""


class DumpedAborted(Struct, frozen=True, kw_only=True):
    """One entry of a `.txnindex` file: an aborted transaction, whose marker is at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class DumpedCheckpointLine(Struct, frozen=True, kw_only=True):
    """One line of a checkpoint: `topic partition offset`, or `epoch offset` for leader epochs."""

    line: int
    fields: tuple[str, ...]


class DumpedProblem(Struct, frozen=True, kw_only=True):
    """From here on, or at this place, the file is not what it should be."""

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
    """The content of one file, by its name; raises CannotDump at once if nothing can be shown."""
    if not path.is_file():
        raise CannotDump(f"the file {path} is missing", hint="name a segment or checkpoint file")
    if path.name in _CHECKPOINT_NAMES:
        return dump_checkpoint(path)
    kind = _kind(path)
    if kind == ".log":
        return dump_log(path, with_records=with_records, decompressed_bytes_max=decompressed_bytes_max)
    dumps: dict[str, Callable[[Path], Iterator[Dumped]]] = {
        ".index": dump_index,
        ".timeindex": dump_time_index,
        ".snapshot": dump_snapshot,
        ".txnindex": dump_aborted,
    }
    if kind not in dumps:
        raise CannotDump(
            f"{path.name} is none of a partition's files",
            hint="it ought to end in .log, .index, .timeindex, .txnindex or .snapshot, or be a checkpoint",
        )
    _base_offset(path)
    return dumps[kind](path)


def _kind(path: Path) -> str:
    # Files on their way in or out have a second ending: 0000.log.deleted, 0000.index.cleaned.
    kinds = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    return next((suffix for suffix in path.suffixes if suffix in kinds), "")


def _base_offset(path: Path) -> int:
    digits = path.name.partition(".")[0]
    if not (digits.isascii() and digits.isdigit()):
        raise CannotDump(
            f"{path.name} does not start with a base offset", hint="keep the original name of the file"
        )
    return int(digits)


def dump_log(
    path: Path, *, with_records: bool = False, decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[DumpedBatch | DumpedProblem]:
    """Every batch of a segment up to its end, or to the place where the next batch can't be found."""
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
            yield _dump_batch(batch, position, header, decompressed_bytes_max if with_records else None)
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
    for position, (relative_offset, log_position) in _entries(path, _INDEX_ENTRY):
        if position and relative_offset == 0:
            return  # the unused rest of a file that Kafka allocated in advance
        offset = base_offset + relative_offset
        if offset <= last_offset:
            yield DumpedProblem(position=position, message=f"offset {offset} follows {last_offset}")
        yield DumpedIndexEntry(offset=offset, log_position=log_position)
        last_offset = offset
    yield from _rest(path, _INDEX_ENTRY)


def dump_time_index(path: Path) -> Iterator[DumpedTimeIndexEntry | DumpedProblem]:
    """Every entry of a time index, and where timestamps do not increase."""
    base_offset = _base_offset(path)
    last_timestamp_ms = -1
    for position, (timestamp_ms, relative_offset) in _entries(path, _TIME_INDEX_ENTRY):
        if position and relative_offset == 0 and timestamp_ms == 0:
            return  # the unused rest of a file that Kafka allocated in advance
        if timestamp_ms < last_timestamp_ms:
            message = f"timestamp {timestamp_ms} follows {last_timestamp_ms}"
            yield DumpedProblem(position=position, message=message)
        yield DumpedTimeIndexEntry(timestamp_ms=timestamp_ms, offset=base_offset + relative_offset)
        last_timestamp_ms = timestamp_ms
    yield from _rest(path, _TIME_INDEX_ENTRY)


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
    """Every producer that a snapshot remembers."""
    content = path.read_bytes()
    entries_position = _SNAPSHOT_HEAD.size + _SNAPSHOT_COUNT.size
    if len(content) < entries_position:
        yield DumpedProblem(position=0, message=f"{len(content)} bytes are too few for a snapshot")
        return
    version, crc = _SNAPSHOT_HEAD.unpack_from(content)
    if version != 1:
        yield DumpedProblem(position=0, message=f"snapshot version {version} is not known")
        return
    if google_crc32c.value(content[_SNAPSHOT_HEAD.size :]) != crc:
        yield DumpedProblem(position=_SNAPSHOT_CRC_POSITION, message="the checksum does not match")
    (count,) = _SNAPSHOT_COUNT.unpack_from(content, _SNAPSHOT_HEAD.size)
    held_count = (len(content) - entries_position) // _SNAPSHOT_ENTRY.size
    for index in range(min(count, held_count)):
        yield _dump_producer(content, entries_position + index * _SNAPSHOT_ENTRY.size)
    if not 0 <= count <= held_count:
        message = f"the header announces {count} producers and the file has room for {held_count}"
        yield DumpedProblem(position=_SNAPSHOT_HEAD.size, message=message)


def _dump_producer(content: bytes, position: int) -> DumpedProducer:
    names = (
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_offset",
        "offset_delta",
        "timestamp_ms",
        "coordinator_epoch",
        "transaction_first_offset",
    )
    return DumpedProducer(**dict(zip(names, _SNAPSHOT_ENTRY.unpack_from(content, position), strict=True)))


def dump_aborted(path: Path) -> Iterator[DumpedAborted | DumpedProblem]:
    """Every aborted transaction that a segment's list has."""
    content = path.read_bytes()
    index = AbortedIndex.decode(content)
    if index is None:
        yield DumpedProblem(position=0, message="it is no list of aborted transactions")
        return
    for entry in index.entries:
        yield DumpedAborted(**asdict(entry))


def dump_checkpoint(path: Path) -> Iterator[DumpedCheckpointLine | DumpedProblem]:
    """Every line of a checkpoint after its version and its count."""
    position = 0
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        text = line.decode("utf-8", "replace").strip()
        if number == 1 and text != "0":
            yield DumpedProblem(position=0, message=f"checkpoint version {text!r} is not known")
        elif number == 2 and text != str(len(lines) - 2):
            message = f"the header announces {text!r} lines and {len(lines) - 2} follow"
            yield DumpedProblem(position=position, message=message)
        elif number > 2:
            yield DumpedCheckpointLine(line=number, fields=tuple(text.split()))
        position += len(line)
    if len(lines) < 2:
        yield DumpedProblem(position=position, message="the file ends before its version and count")
