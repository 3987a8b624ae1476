"""Records inside a batch: decoding, encoding, and the few rewrites that a broker makes of a whole batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from headrace.records.batch import (
    CODEC_BITS,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    TimestampType,
    pack_batch,
    read_header,
)
from headrace.records.compression import Codec, compress, decompress
from headrace.records.errors import DecompressionBomb, InvalidBatch
from headrace.records.varint import append_varint, read_varint

Headers = tuple[tuple[str, bytes | None], ...]

# Length, attributes, timestamp, offset, key length, value length and header count, one byte each.
_RECORD_BYTES_MIN = 7
# A header takes a byte for the length of its name and one for that of its value.
_RECORD_HEADER_BYTES_MIN = 2

BATCH_RECORDS_MAX = 250_000
"""Default bound on the records of one batch: 1 MiB of the smallest records with a key holds 131,072."""

_DAMAGED = "the batch is damaged, or was written by a client that does not keep to the format"


class Record(Struct, frozen=True, kw_only=True):
    """One record with its offset."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class RecordSpan(Struct, frozen=True):
    """The position of one record in the decompressed section of a batch, and its fields except the value."""

    start: int
    end: int
    timestamp_delta_ms: int
    offset_delta: int
    key: bytes | None
    value_start: int
    value_bytes: int
    """-1 for a tombstone."""
    timestamp_start: int
    """Start of the timestamp delta, which ends at `offset_start`. A new base timestamp changes nothing else."""
    offset_start: int


def records_section(batch: Buffer, *, bytes_max: int) -> bytes:
    """The records of one batch, decompressed."""
    header = read_header(batch)
    if len(batch) < header.size_bytes or header.size_bytes < HEADER_BYTES:
        raise InvalidBatch(f"a batch of {header.size_bytes} bytes ends after {len(batch)}", hint=_DAMAGED)
    return decompress(header.compression, bytes(batch[HEADER_BYTES : header.size_bytes]), bytes_max=bytes_max)


def walk_records(section: bytes, record_count: int) -> Iterator[RecordSpan]:
    """The position of every record in a decompressed section; raises InvalidBatch for inconsistent numbers."""
    if record_count < 0:
        raise InvalidBatch(f"a batch cannot have {record_count} records", hint=_DAMAGED)
    position = 0
    try:
        for _ in range(record_count):
            span = _read_span(section, position)
            yield span
            position = span.end
    except IndexError:
        raise InvalidBatch(f"the record at byte {position} is cut off", hint=_DAMAGED) from None
    if position != len(section):
        raise InvalidBatch(f"{len(section) - position} bytes follow the last record", hint=_DAMAGED)


def _read_span(section: bytes, start: int) -> RecordSpan:
    length, position = read_varint(section, start)
    end = position + length
    if length < _RECORD_BYTES_MIN - 1 or end > len(section):
        raise InvalidBatch(f"the record at byte {start} claims {length} bytes", hint=_DAMAGED)
    timestamp_start = position + 1
    timestamp_delta_ms, offset_start = read_varint(section, timestamp_start)
    offset_delta, position = read_varint(section, offset_start)
    key_bytes, position = read_varint(section, position)
    key: bytes | None = None
    if key_bytes >= 0:
        key = section[position : position + key_bytes]
        position += key_bytes
    if key_bytes < -1 or position >= end:
        raise InvalidBatch(f"the key of the record at byte {start} claims {key_bytes} bytes", hint=_DAMAGED)
    value_bytes, value_start = read_varint(section, position)
    # The header count still follows, so the value must end before the record does.
    if value_bytes < -1 or value_start + max(value_bytes, 0) >= end:
        raise InvalidBatch(
            f"the value of the record at byte {start} claims {value_bytes} bytes", hint=_DAMAGED
        )
    return RecordSpan(
        start,
        end,
        timestamp_delta_ms,
        offset_delta,
        key,
        value_start,
        value_bytes,
        timestamp_start,
        offset_start,
    )


def check_record_count(record_count: int, records_max: int) -> None:
    """Raise DecompressionBomb for a batch that would take too much memory or time when it is decoded as a whole."""
    if record_count > records_max:
        raise DecompressionBomb(
            f"the batch has {record_count} records, {records_max} are allowed",
            hint="send smaller batches, or raise batch_records_max of the broker",
        )


def decode_records(batch: Buffer, *, bytes_max: int, records_max: int = BATCH_RECORDS_MAX) -> list[Record]:
    """All records of one batch at once; both their decompressed size and their number are bounded."""
    check_record_count(read_header(batch).record_count, records_max)
    return list(iterate_records(batch, bytes_max=bytes_max))


def iterate_records(batch: Buffer, *, bytes_max: int) -> Iterator[Record]:
    """The records of one batch, one at a time: memory is bounded by `bytes_max`, however many there are."""
    header = read_header(batch)
    section = records_section(batch, bytes_max=bytes_max)
    # A batch stamped by the broker has one time for all its records.
    appended_ms = header.max_timestamp_ms if header.attributes & LOG_APPEND_TIME_BIT else None
    for span in walk_records(section, header.record_count):
        value_end = span.value_start + max(span.value_bytes, 0)
        yield Record(
            offset=header.base_offset + span.offset_delta,
            timestamp_ms=header.base_timestamp_ms + span.timestamp_delta_ms
            if appended_ms is None
            else appended_ms,
            key=span.key,
            value=section[span.value_start : value_end] if span.value_bytes >= 0 else None,
            headers=() if section[value_end] == 0 else _read_headers(section, value_end, span.end),
        )


def _read_headers(section: bytes, position: int, end: int) -> Headers:
    try:
        count, position = read_varint(section, position)
        if count < 0 or count * _RECORD_HEADER_BYTES_MIN > end - position:
            raise InvalidBatch(f"a record claims {count} headers in {end - position} bytes", hint=_DAMAGED)
        headers: list[tuple[str, bytes | None]] = []
        for _ in range(count):
            name, position = _read_sized(section, position, end)
            value, position = _read_sized(section, position, end)
            if name is None:
                raise InvalidBatch("a record header has no name", hint=_DAMAGED)
            # Surrogates keep what is no UTF-8, so that encoding gives the same bytes again.
            headers.append((name.decode("utf-8", "surrogateescape"), value))
    except IndexError:
        raise InvalidBatch("the headers of the last record are cut off", hint=_DAMAGED) from None
    if position != end:
        raise InvalidBatch(f"{end - position} bytes follow the headers of a record", hint=_DAMAGED)
    return tuple(headers)


def _read_sized(section: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size_bytes, position = read_varint(section, position)
    if size_bytes < -1 or position + max(size_bytes, 0) > end:
        raise InvalidBatch(f"a record header claims {size_bytes} bytes", hint=_DAMAGED)
    if size_bytes == -1:
        return None, position
    return section[position : position + size_bytes], position + size_bytes


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    is_transactional: bool = False,
    is_control: bool = False,
    leader_epoch: int = -1,
    delete_horizon_ms: int | None = None,
) -> bytes:
    """One batch of `records`, which keep their offsets (ascending from `base_offset`, with gaps allowed)."""
    assert records, "only the cleaner writes an empty batch"
    assert records[0].offset >= base_offset
    base_timestamp_ms = records[0].timestamp_ms if delete_horizon_ms is None else delete_horizon_ms
    section = bytearray()
    for record in records:
        section += encode_record(
            record,
            timestamp_delta_ms=record.timestamp_ms - base_timestamp_ms,
            offset_delta=record.offset - base_offset,
        )
    attributes = (
        codec
        | (LOG_APPEND_TIME_BIT if timestamp_type is TimestampType.LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_BIT if is_transactional else 0)
        | (CONTROL_BIT if is_control else 0)
        | (DELETE_HORIZON_BIT if delete_horizon_ms is not None else 0)
    )
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=records[-1].offset - base_offset,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max(record.timestamp_ms for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return pack_batch(header, compress(codec, bytes(section), level))


def encode_record(record: Record, *, timestamp_delta_ms: int, offset_delta: int) -> bytes:
    """One record as a batch has it, with its length in front."""
    body = bytearray(1)  # attributes: none are defined
    append_varint(body, timestamp_delta_ms)
    append_varint(body, offset_delta)
    _append_sized(body, record.key)
    _append_sized(body, record.value)
    append_varint(body, len(record.headers))
    for name, value in record.headers:
        _append_sized(body, name.encode("utf-8", "surrogateescape"))
        _append_sized(body, value)
    sized = bytearray()
    append_varint(sized, len(body))
    return bytes(sized + body)


def _append_sized(out: bytearray, data: bytes | None) -> None:
    if data is None:
        append_varint(out, -1)
        return
    append_varint(out, len(data))
    out += data


def recompress(batch: Buffer, codec: Codec, level: int | None = None, *, bytes_max: int) -> bytes:
    """The same batch with its records in another compression; the records are not decoded."""
    header = read_header(batch)
    section = records_section(batch, bytes_max=bytes_max)
    attributes = header.attributes & ~CODEC_BITS | codec
    return pack_batch(replace(header, attributes=attributes), compress(codec, section, level))


def with_log_append_time(batch: Buffer, now_ms: int) -> bytes:
    """The same batch stamped with the broker's time, which then counts for every record in it."""
    header = read_header(batch)
    stamped = replace(header, attributes=header.attributes | LOG_APPEND_TIME_BIT, max_timestamp_ms=now_ms)
    return pack_batch(stamped, bytes(batch[HEADER_BYTES : header.size_bytes]))


def records_without_key(batch: Buffer, *, bytes_max: int, indexes_max: int) -> tuple[int, tuple[int, ...]]:
    """How many records have no key, which a compacted topic cannot keep, and the indexes of the first of them."""
    section = records_section(batch, bytes_max=bytes_max)
    record_count = read_header(batch).record_count
    if _all_have_keys(section, record_count):
        return 0, ()
    count = 0
    indexes: list[int] = []
    for index, span in enumerate(walk_records(section, record_count)):
        if span.key is None:
            count += 1
            if count <= indexes_max:
                indexes.append(index)
    return count, tuple(indexes)


def _all_have_keys(section: bytes, record_count: int) -> bool:
    """Whether all records are consistent and have a key. False also if a record needs a closer look.

    A broker runs this for each record of a compacted topic, so usual varints are read here, in half of the time of
    `walk_records`. A record with longer ones before its value is left to it.
    """
    at = 0
    try:
        for _ in range(record_count):
            byte = section[at]
            if byte & 1:
                return False
            if byte < 0x80:
                start, length = at + 1, byte >> 1
            elif (second := section[at + 1]) < 0x80:
                start, length = at + 2, (byte & 0x7F | second << 7) >> 1
            else:
                length, start = read_varint(section, at)
            end = start + length
            at = start + 1  # after the attributes: the timestamp
            at += 1 if section[at] < 0x80 else 2 if section[at + 1] < 0x80 else 3
            if section[at - 1] > 0x7F:
                return False
            at += 1 if section[at] < 0x80 else 2 if section[at + 1] < 0x80 else 3  # after the offset
            if section[at - 1] > 0x7F:
                return False
            byte = section[at]
            if byte & 1:
                return False
            if byte < 0x80:
                at += 1 + (byte >> 1)
            elif (second := section[at + 1]) < 0x80:
                at += 2 + ((byte & 0x7F | second << 7) >> 1)
            else:
                return False
            byte = section[at]
            if byte < 0x80:
                at += 1
                if byte & 1 == 0:
                    at += byte >> 1
                elif byte != 1:
                    return False
            elif (second := section[at + 1]) < 0x80 and not byte & 1:
                at += 2 + ((byte & 0x7F | second << 7) >> 1)
            else:
                value_bytes, at = read_varint(section, at)
                at += value_bytes
                if value_bytes < 0:
                    return False
            if at >= end:
                return False
            at = end
    except IndexError:
        return False
    return at == len(section)
