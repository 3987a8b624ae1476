"""The header of a record batch (format v2): 61 bytes with all that a broker needs. Records are never decoded here.

The first 12 bytes (base offset and length) frame the batch. The checksum covers all from the attributes
on, so base offset and leader epoch can be patched without computing it again.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from enum import IntEnum

import google_crc32c
from msgspec import Struct
from msgspec.structs import astuple, replace

from headrace.errors import HeadraceError
from headrace.records.compression import Codec, codec_of
from headrace.records.errors import InvalidBatch

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
MAGIC = 2

BASE_OFFSET_POSITION = 0
LENGTH_POSITION = 8
MAGIC_POSITION = 16
CRC_POSITION = 17
ATTRIBUTES_POSITION = 21

CODEC_BITS = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
# Sequence numbers of an idempotent producer count up to here and continue with 0.
SEQUENCE_MAX = 2**31 - 1

CRC_PIECE_BYTES = 65_536

Buffer = bytes | bytearray | memoryview

_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_LENGTH_MIN = HEADER_BYTES - LOG_OVERHEAD_BYTES

_crc32c_value = google_crc32c.value
_crc32c_extend = google_crc32c.extend

assert HEADER.size == HEADER_BYTES

if google_crc32c.implementation != "c" and os.environ.get("HEADRACE_ALLOW_SLOW_CRC") != "1":
    raise HeadraceError(
        "google-crc32c has no native code here, and its Python fallback is thousands of times slower",
        hint="install a google-crc32c wheel for this platform, or set HEADRACE_ALLOW_SLOW_CRC=1",
    )


class TimestampType(IntEnum):
    """Whose clock a batch's timestamps come from."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(Struct, frozen=True):
    """A batch's header, field by field in the order of the bytes."""

    base_offset: int
    length: int
    """Bytes after the length field: the whole batch is 12 bytes longer."""
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    """The delete horizon where `has_delete_horizon`, otherwise the first record's timestamp."""
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Codec:
        """The records' codec; raises UnsupportedCodec for a number that names none."""
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType(bool(self.attributes & LOG_APPEND_TIME_BIT))

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """From when on the tombstones of this batch may go; None before the cleaner has seen them."""
        return self.base_timestamp_ms if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record as the producer sent it; wraps to 0 after 2**31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. The caller checks its fields."""
    if len(buffer) - position < HEADER_BYTES:
        raise InvalidBatch(
            f"a batch header takes {HEADER_BYTES} bytes and {max(0, len(buffer) - position)} are left",
            hint="the data was cut off in the middle of a batch",
        )
    return BatchHeader(*HEADER.unpack_from(buffer, position))


def iterate_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of every whole batch; a partial batch at the end is skipped."""
    position = 0
    buffer_bytes = len(buffer)
    while buffer_bytes - position >= HEADER_BYTES:
        header = BatchHeader(*HEADER.unpack_from(buffer, position))
        if header.length < _LENGTH_MIN:
            raise InvalidBatch(
                f"the batch at byte {position} claims a length of {header.length}",
                hint="the data is damaged there, or is not a sequence of batches of format v2",
            )
        end = position + LOG_OVERHEAD_BYTES + header.length
        if end > buffer_bytes:
            return
        yield position, header
        position = end


def crc32c(data: Buffer, start: int = 0, end: int | None = None) -> int:
    """CRC-32C of data[start:end].

    The library takes nothing but `bytes`, so the data is copied: in pieces that stay in the processor's cache, since a
    large batch copied as a whole costs more in new memory than in arithmetic.
    """
    end = len(data) if end is None else end
    if end - start <= CRC_PIECE_BYTES:
        return int(_crc32c_value(bytes(data[start:end])))
    crc = 0
    for position in range(start, end, CRC_PIECE_BYTES):
        crc = _crc32c_extend(crc, bytes(data[position : min(position + CRC_PIECE_BYTES, end)]))
    return crc


def checksum_matches(batch: Buffer) -> bool:
    """Whether the checksum of one whole batch matches. Bytes after the batch are ignored."""
    if len(batch) < HEADER_BYTES:
        return False
    end = LOG_OVERHEAD_BYTES + int(_LENGTH.unpack_from(batch, LENGTH_POSITION)[0])
    if end < HEADER_BYTES or end > len(batch):
        return False
    actual = crc32c(batch, ATTRIBUTES_POSITION, end)
    return actual == int(_CRC.unpack_from(batch, CRC_POSITION)[0])


def pack_batch(header: BatchHeader, records: bytes) -> bytes:
    """A batch of `header` and the records' stored bytes; length and checksum are computed here."""
    packed = bytearray(HEADER_BYTES)
    HEADER.pack_into(
        packed, 0, *astuple(replace(header, length=_LENGTH_MIN + len(records), magic=MAGIC, crc=0))
    )
    packed += records
    _CRC.pack_into(packed, CRC_POSITION, crc32c(packed, ATTRIBUTES_POSITION))
    return bytes(packed)
