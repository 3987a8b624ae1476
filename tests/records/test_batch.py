from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from msgspec.structs import astuple, replace

from headrace.records import batch as batch_module
from headrace.records.batch import (
    HEADER,
    HEADER_BYTES,
    BatchHeader,
    TimestampType,
    checksum_matches,
    iterate_headers,
    pack_batch,
    read_header,
)
from headrace.records.compression import Codec
from headrace.records.errors import InvalidBatch, UnsupportedCodec
from headrace.records.record import Record, encode_batch


def _int(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


headers = st.builds(
    BatchHeader,
    base_offset=_int(64),
    length=st.just(0),
    leader_epoch=_int(32),
    magic=st.just(2),
    crc=st.just(0),
    attributes=st.integers(0, 0x7F),
    last_offset_delta=_int(32),
    base_timestamp_ms=_int(64),
    max_timestamp_ms=_int(64),
    producer_id=_int(64),
    producer_epoch=_int(16),
    base_sequence=_int(32),
    record_count=_int(32),
)


def _batch(offset: int = 0, value: bytes = b"value") -> bytes:
    record = Record(offset=offset, timestamp_ms=1_700_000_000_000, key=b"key", value=value)
    return encode_batch([record], base_offset=offset, leader_epoch=3)


@given(headers, st.binary(max_size=50))
def test_packed_header_reads_back_with_its_length_and_a_checksum_that_matches(
    header: BatchHeader, records: bytes
) -> None:
    packed = pack_batch(header, records)
    read = read_header(packed)
    assert replace(read, length=0, crc=0) == header
    assert read.size_bytes == len(packed) == HEADER_BYTES + len(records)
    assert checksum_matches(packed)


def test_header_has_the_fields_that_another_client_reads() -> None:
    data = encode_batch(
        [Record(offset=offset, timestamp_ms=1000 + offset, key=None, value=b"v") for offset in (7, 9, 12)],
        base_offset=7,
        codec=Codec.GZIP,
        producer_id=4711,
        producer_epoch=5,
        base_sequence=99,
        is_transactional=True,
        leader_epoch=2,
    )
    header, other = read_header(data), DefaultRecordBatch(data)
    assert other.validate_crc()
    assert (header.base_offset, header.last_offset, header.next_offset) == (
        other.base_offset,
        other.base_offset + other.last_offset_delta,
        other.next_offset,
    )
    assert header.crc == other.crc
    assert header.magic == other.magic == 2
    assert header.compression == other.compression_type == Codec.GZIP
    assert header.timestamp_type == other.timestamp_type == TimestampType.CREATE_TIME
    assert header.is_transactional is other.is_transactional is True
    assert header.is_control is other.is_control_batch is False
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (other.first_timestamp, other.max_timestamp)
    assert header.max_timestamp_ms == 1012
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 5, 99)
    assert (header.leader_epoch, header.record_count, header.last_sequence) == (2, 3, 104)


@pytest.mark.parametrize("name", ["base_offset", "length", "magic", "crc", "attributes"])
def test_position_is_that_of_its_field(name: str) -> None:
    fields = BatchHeader(*range(1, 14))
    packed = HEADER.pack(*astuple(fields))
    position = getattr(batch_module, f"{name.upper()}_POSITION")
    ends = [end for end in range(position + 1, HEADER_BYTES + 1) if any(packed[position:end])]
    assert packed[ends[0] - 1] == getattr(fields, name)


@pytest.mark.parametrize(
    ("base_sequence", "last_offset_delta", "last_sequence"),
    [(0, 0, 0), (10, 4, 14), (2**31 - 1, 0, 2**31 - 1), (2**31 - 1, 1, 0), (2**31 - 3, 10, 7), (-1, 5, -1)],
)
def test_last_sequence_continues_with_zero_after_the_largest(
    base_sequence: int, last_offset_delta: int, last_sequence: int
) -> None:
    header = replace(read_header(_batch()), base_sequence=base_sequence, last_offset_delta=last_offset_delta)
    assert header.last_sequence == last_sequence


def test_attribute_bits_are_distinguished() -> None:
    header = read_header(_batch())
    seen = [
        (
            changed.timestamp_type is TimestampType.LOG_APPEND_TIME,
            changed.is_transactional,
            changed.is_control,
            changed.has_delete_horizon,
        )
        for changed in (replace(header, attributes=1 << bit) for bit in (3, 4, 5, 6))
    ]
    assert seen == [tuple(index == column for column in range(4)) for index in range(4)]
    assert header.delete_horizon_ms is None
    assert replace(header, attributes=0x40).delete_horizon_ms == header.base_timestamp_ms


def test_unknown_codec_is_an_error_only_when_it_is_used() -> None:
    header = replace(read_header(_batch()), attributes=7)
    with pytest.raises(UnsupportedCodec):
        _ = header.compression


@pytest.mark.parametrize("size_bytes", [0, 12, HEADER_BYTES - 1])
def test_header_that_is_cut_off_is_truncated(size_bytes: int) -> None:
    with pytest.raises(InvalidBatch, match=f"{size_bytes} are left"):
        read_header(_batch()[:size_bytes])
    with pytest.raises(InvalidBatch, match=f"{size_bytes} are left"):
        read_header(b"x" * 20 + _batch()[:size_bytes], 20)


def test_iteration_yields_every_whole_batch_and_skips_a_partial_tail() -> None:
    batches = [_batch(offset, b"v" * offset) for offset in range(5)]
    whole = b"".join(batches)
    starts = [sum(map(len, batches[:count])) for count in range(5)]
    for end in range(len(whole) + 1):
        expected = [
            (start, read_header(b)) for start, b in zip(starts, batches, strict=True) if start + len(b) <= end
        ]
        assert list(iterate_headers(memoryview(whole)[:end])) == expected


@pytest.mark.parametrize("length", [0, -1, -(2**31), 48])
def test_iteration_rejects_a_length_that_would_not_move_on(length: int) -> None:
    damaged = _batch() + HEADER.pack(*astuple(replace(read_header(_batch()), length=length)))
    with pytest.raises(InvalidBatch, match=f"byte {len(_batch())}"):
        list(iterate_headers(damaged))


def test_every_flipped_bit_after_the_leader_epoch_is_noticed() -> None:
    data = _batch()
    for position in range(batch_module.CRC_POSITION, len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            assert not checksum_matches(damaged), (position, bit)


def test_base_offset_and_leader_epoch_can_be_patched_without_a_new_checksum() -> None:
    data = bytearray(_batch())
    data[0:8] = (12345).to_bytes(8, "big")
    data[12:16] = (6).to_bytes(4, "big")
    assert checksum_matches(data)
    assert checksum_matches(memoryview(data))


def test_checksum_of_less_than_a_batch_does_not_match_and_of_more_looks_at_the_batch_alone() -> None:
    data = _batch()
    assert not any(checksum_matches(data[:end]) for end in range(len(data)))
    assert checksum_matches(data + b"what follows")


@pytest.mark.parametrize(("allowed", "succeeds"), [("0", False), ("1", True)])
def test_slow_checksums_are_rejected_unless_allowed(allowed: str, succeeds: bool) -> None:
    program = "import google_crc32c as crc; crc.implementation = 'python'; import headrace.records.batch"
    environment = {**os.environ, "HEADRACE_ALLOW_SLOW_CRC": allowed, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) is succeeds, done.stderr
    assert succeeds or "HEADRACE_ALLOW_SLOW_CRC=1" in done.stderr
