"""Reads records for dead letters: the originals, letters that were written before, and reasons.

Clients wrote them, and the broker stored them without decoding: a batch may be invalid, or have millions of records in
a few kilobytes. A batch is decompressed within bounds, one of its records is in memory at a time, and a batch that
can't be decoded affects only its own records. All of this runs in a thread.
"""

from __future__ import annotations

import errno
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from headrace.broker.stored_batches import batches_in
from headrace.log.config import LogConfig
from headrace.log.errors import CorruptArchive, CorruptSegment, OffsetOutOfRange
from headrace.log.partition_log import PartitionLog
from headrace.records.batch import checksum_matches, iterate_headers, read_header
from headrace.records.errors import InvalidBatch
from headrace.records.record import Record, check_record_count, iterate_records


class Original(Struct, frozen=True):
    record: Record
    """Only its offset if it could not be read."""
    problem: str = ""
    """Why it could not be read."""


def unread(offsets: Iterable[int], problem: str = "") -> Iterator[Original]:
    """Only the offsets."""
    for offset in offsets:
        yield Original(Record(offset=offset, timestamp_ms=0, key=None, value=None), problem)


def originals(log: PartitionLog, offsets: Sequence[int]) -> Iterator[Original]:
    """The records of ascending offsets; each batch is read and decompressed once.

    Raises failures that a retry may solve, such as an unreachable archive. Others become the problem of their records.
    """
    index = 0
    while index < len(offsets):
        batch, problem = _batch_of(log, offsets[index])
        last_offset = read_header(batch).last_offset if batch else offsets[index]
        stop = bisect_right(offsets, last_offset)
        wanted = offsets[index:stop]
        yield from (_in_batch(batch, wanted, log.config) if batch else unread(wanted, problem))
        index = stop


def _batch_of(log: PartitionLog, offset: int) -> tuple[bytes, str]:
    """The batch with an offset, or why it can't be read."""
    try:
        data = bytes(log.reader.read(offset, bytes_max=1, end_offset=log.end_offset, at_least_one=True))
        header = next((header for _, header in iterate_headers(data)), None)
    except OffsetOutOfRange:
        return b"", "removed by retention"
    except (CorruptSegment, CorruptArchive, InvalidBatch) as error:
        return b"", error.message
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return b"", str(error)
    if header is None or not header.base_offset <= offset <= header.last_offset:
        return b"", "removed by compaction"
    batch = data[: header.size_bytes]
    return (batch, "") if checksum_matches(batch) else (b"", "the checksum of its batch does not match")


def _in_batch(batch: bytes, wanted: Sequence[int], config: LogConfig) -> Iterator[Original]:
    found = 0
    problem = "removed by compaction"
    try:
        for record in _records(batch, config):
            while found < len(wanted) and wanted[found] < record.offset:
                yield from unread([wanted[found]], problem)
                found += 1
            if found == len(wanted):
                return
            if wanted[found] == record.offset:
                yield Original(record)
                found += 1
    except InvalidBatch as error:
        problem = error.message
    yield from unread(wanted[found:], problem)


def _records(batch: bytes, config: LogConfig) -> Iterator[Record]:
    check_record_count(read_header(batch).record_count, config.batch_records_max)
    return iterate_records(batch, bytes_max=config.decompressed_bytes_max)


def decodable(log: PartitionLog, start_offset: int = 0) -> Iterator[tuple[int, Record]]:
    """All records from an offset on that can be decoded, each with the offset after its batch.

    Raises if a batch is damaged.
    """
    for header, batch in batches_in(log, start_offset):
        if header.is_control:
            continue
        with suppress(InvalidBatch):
            for record in _records(batch, log.config):
                yield header.next_offset, record
