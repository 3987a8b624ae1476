from __future__ import annotations

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from headrace.records.batch import NO_SEQUENCE, checksum_matches, read_header
from headrace.records.control import (
    EndTransactionMarker,
    MarkerType,
    decode_marker,
    encode_marker,
    encode_marker_batch,
)
from headrace.records.errors import InvalidBatch
from headrace.records.record import Record, decode_records

COMMIT = EndTransactionMarker(type=MarkerType.COMMIT, coordinator_epoch=7)
ABORT = EndTransactionMarker(type=MarkerType.ABORT, coordinator_epoch=7)

markers = st.builds(
    EndTransactionMarker,
    type=st.sampled_from(MarkerType),
    coordinator_epoch=st.integers(-(2**31), 2**31 - 1),
)


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(offset=0, timestamp_ms=0, key=key, value=value)


@given(markers)
def test_markers_are_read_as_they_were_written(marker: EndTransactionMarker) -> None:
    assert decode_marker(record(*encode_marker(marker))) == marker


def test_the_bytes_are_version_and_type_then_version_and_coordinator_epoch() -> None:
    assert encode_marker(ABORT) == (bytes.fromhex("00000000"), bytes.fromhex("000000000007"))
    assert encode_marker(COMMIT) == (bytes.fromhex("00000001"), bytes.fromhex("000000000007"))


@pytest.mark.parametrize("kind", [-1, 2, 3, 6, 32767])
def test_a_control_record_of_another_type_is_no_marker(kind: int) -> None:
    key = b"\0\0" + kind.to_bytes(2, "big", signed=True)
    assert decode_marker(record(key, b"whatever it holds")) is None
    assert decode_marker(record(key, None)) is None


def test_newer_versions_with_more_bytes_are_read_like_the_first() -> None:
    assert decode_marker(record(b"\0\1\0\1more", b"\0\2\0\0\0\7more")) == COMMIT


def test_markers_cut_at_any_byte_are_corrupt() -> None:
    key, value = encode_marker(COMMIT)
    for damaged in (
        *(record(key[:size], value) for size in range(len(key))),
        *(record(key, value[:size]) for size in range(len(value))),
        record(None, value),
        record(key, None),
    ):
        with pytest.raises(InvalidBatch, match="cut off or missing"):
            decode_marker(damaged)


@pytest.mark.parametrize(
    ("key", "value"), [(b"\xff\xff\0\1", b"\0\0\0\0\0\7"), (b"\0\0\0\1", b"\xff\xff\0\0\0\7")]
)
def test_markers_of_a_negative_version_are_corrupt(key: bytes, value: bytes) -> None:
    with pytest.raises(InvalidBatch, match="negative version"):
        decode_marker(record(key, value))


def test_a_marker_batch_is_a_control_batch_of_the_producer_without_a_sequence() -> None:
    batch = encode_marker_batch(COMMIT, producer_id=4000, producer_epoch=3, timestamp_ms=12345)
    header = read_header(batch)
    assert checksum_matches(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch) == (4000, 3)
    assert header.base_sequence == NO_SEQUENCE
    assert header.record_count == 1
    [marker] = decode_records(batch, bytes_max=1000)
    assert decode_marker(marker) == COMMIT
    assert marker.timestamp_ms == 12345


@pytest.mark.parametrize("marker", [COMMIT, ABORT])
def test_other_clients_see_the_same_marker(marker: EndTransactionMarker) -> None:
    batch = encode_marker_batch(marker, producer_id=4000, producer_epoch=3, timestamp_ms=12345)
    for theirs in (DefaultRecordBatch(bytearray(batch)), AiokafkaBatch(bytearray(batch))):
        assert theirs.is_control_batch
        assert theirs.is_transactional
        assert theirs.producer_id == 4000
        [read] = list(theirs)
        assert decode_marker(record(read.key, read.value)) == marker
