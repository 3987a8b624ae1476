"""Finding and reading batches in one segment, from any thread: by offset and by time.

Stored bytes are returned unchanged. Headers are read only to find where a result starts and ends, and with the index
those are few.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from headrace.log.errors import WouldBlock
from headrace.log.filesystem import Buffer
from headrace.log.segment import LENGTH_MIN, Segment
from headrace.records.batch import LOG_OVERHEAD_BYTES, MAGIC, BatchHeader
from headrace.records.record import iterate_records

# What a search from batch to batch needs: base offset, length, (epoch), magic, (crc, attributes), last offset delta.
_hop = struct.Struct(">qi4xb6xi")
HOP_BYTES = _hop.size
_unpack_hop = _hop.unpack_from


class TimestampOffset(Struct, frozen=True, kw_only=True):
    """A record found by time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class SegmentRead(Struct):
    """Batches of one segment, and where the next read continues."""

    batches: Buffer
    next_position: int
    next_offset: int
    """-1 if that is not known without reading further."""


def read_segment(
    segment: Segment,
    offset: int,
    *,
    position: int | None,
    limit: tuple[int, int],
    bytes_max: int,
    at_least_one: bool,
    nowait: bool,
) -> SegmentRead | None:
    """Whole batches from the one that holds offset on; None if the segment ends before it.

    `limit` is (offset, position) of a batch boundary that is not passed. `position`, when known, is where the batch
    with this offset starts.
    """
    limit_offset, limit_position = limit
    is_exact = position is not None
    if position is None:
        position = segment.offset_index().position_at_or_before(offset)
    for damage in segment.damages:
        if offset < damage.first_offset:
            if damage.position < limit_position:
                limit_offset, limit_position = damage.first_offset, damage.position
            break
        if offset < damage.next_offset:
            raise damage.as_error()
        position = max(position, damage.end_position)
    if not is_exact:
        found = _seek(segment, offset, position, limit_position, nowait=nowait)
        if found is None:
            return None
        position = found
    if position >= limit_position:
        return None
    left = limit_position - position
    if left <= bytes_max:
        batches = _read(segment, left, position, nowait=nowait)
        if len(batches) == left:
            return SegmentRead(batches, limit_position, limit_offset)
    else:
        batches = _read(segment, max(bytes_max, HOP_BYTES), position, nowait=nowait)
    cut, next_offset = _cut(segment, batches, position)
    if cut:
        view = batches if cut == len(batches) else memoryview(batches)[:cut]
        return SegmentRead(view, position + cut, next_offset)
    if not at_least_one:
        return SegmentRead(b"", position, offset)
    return _read_one(segment, batches, position, limit_position, nowait=nowait)


def _read(segment: Segment, count: int, position: int, *, nowait: bool) -> Buffer:
    return segment.read_nowait(count, position) if nowait else segment.read(count, position)


def _read_one(
    segment: Segment, begin: Buffer, position: int, limit_position: int, *, nowait: bool
) -> SegmentRead:
    """One batch that is larger than the requested bytes."""
    if len(begin) < HOP_BYTES:
        if nowait:
            raise WouldBlock
        raise segment.corrupt(position, "the file ends inside a batch")
    _, size, last_offset = hop(begin, 0)
    if size == 0 or position + size > limit_position:
        raise segment.corrupt(position, "no batch starts here")
    batch = _read(segment, size, position, nowait=nowait)
    if len(batch) < size:
        if nowait:
            raise WouldBlock
        raise segment.corrupt(position, "the file ends inside a batch")
    return SegmentRead(batch, position + size, last_offset + 1)


def _seek(segment: Segment, offset: int, position: int, limit_position: int, *, nowait: bool) -> int | None:
    """Position of the batch that holds offset, or of the first after it, from an indexed batch on."""
    # Index entries are mostly this far apart; a large batch between them costs another read.
    chunk_bytes = segment.index_interval_bytes + HOP_BYTES
    buffer: Buffer = b""
    buffer_start = position
    # A checksum covers neither the offset nor the length of its batch. A wrong one shows when offsets decrease, or when
    # a batch does not end within the segment.
    previous_offset = segment.base_offset - 1
    ahead: int | None = None
    while position < limit_position:
        at = position - buffer_start
        if at + HOP_BYTES > len(buffer):
            buffer = _read(segment, min(chunk_bytes, limit_position - position), position, nowait=nowait)
            buffer_start, at = position, 0
            if len(buffer) < HOP_BYTES:
                if nowait:
                    raise WouldBlock
                raise segment.corrupt(position, "the file ends inside a batch")
        base_offset, size, last_offset = hop(buffer, at)
        if size == 0 or position + size > limit_position:
            raise segment.corrupt(position, "no batch starts here")
        if base_offset <= previous_offset:
            raise segment.corrupt(position, f"offset {base_offset} follows {previous_offset}")
        if ahead is not None:
            return ahead
        if last_offset >= offset:
            if base_offset <= offset:
                return position
            ahead = position  # unless the next batch contradicts
        previous_offset = last_offset
        position += size
    return ahead


def _cut(segment: Segment, batches: Buffer, position: int) -> tuple[int, int]:
    """(bytes up to the last whole batch, offset that follows it); reads headers only after the last index entry."""
    end = len(batches)
    at = max(0, segment.offset_index().boundary_before(position + end) - position)
    if at > end - HOP_BYTES and at > 0:
        at = max(0, segment.offset_index().boundary_before(position + end - HOP_BYTES) - position)
    next_offset = -1
    while at + HOP_BYTES <= end:
        base_offset, size, last_offset = hop(batches, at)
        if size == 0:
            raise segment.corrupt(position + at, "no batch starts here")
        if at + size > end:
            return at, base_offset if next_offset < 0 else next_offset
        at += size
        next_offset = last_offset + 1
    return at, next_offset


def position_of(segment: Segment, offset: int) -> int:
    """Where the first batch that reaches offset starts; the size of the segment if none does."""
    _, size_bytes = segment.extent
    position = segment.offset_index().position_at_or_before(offset)
    found = _seek(segment, offset, position, size_bytes, nowait=False)
    return size_bytes if found is None else found


def first_at_or_after(
    segment: Segment, timestamp_ms: int, *, start_offset: int, end_offset: int, decompressed_bytes_max: int
) -> TimestampOffset | None:
    """First record of the segment whose timestamp is not below timestamp_ms, within the two offsets."""
    from_offset = max(segment.time_index().offset_before(timestamp_ms), start_offset)
    position = segment.offset_index().position_at_or_before(from_offset)
    for at, header in segment.walk(position):
        if header.base_offset >= end_offset:
            return None
        if header.max_timestamp_ms < timestamp_ms or header.last_offset < start_offset:
            continue
        found = _first_in_batch(segment, at, header, timestamp_ms, start_offset, decompressed_bytes_max)
        if found is not None:
            return found
    return None


def _first_in_batch(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, start_offset: int, bytes_max: int
) -> TimestampOffset | None:
    batch = segment.read(header.size_bytes, position)
    for record in iterate_records(batch, bytes_max=bytes_max):
        if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
            return TimestampOffset(
                offset=record.offset, timestamp_ms=record.timestamp_ms, leader_epoch=header.leader_epoch
            )
    return None


def hop(buffer: Buffer, at: int) -> tuple[int, int, int]:
    """(base offset, size, last offset) of the batch at a position of a buffer; size 0 if it cannot be one."""
    base_offset, length, magic, last_offset_delta = _unpack_hop(buffer, at)
    if magic != MAGIC or length < LENGTH_MIN:
        return base_offset, 0, base_offset
    return base_offset, length + LOG_OVERHEAD_BYTES, base_offset + last_offset_delta
