"""What a batch must be before it is stored, without a log around it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from headrace.errors import HeadraceError
from headrace.log.batch_check import (
    as_stored,
    check_batch,
    inspect,
    inspected_batch,
    is_stored_unchanged,
    may_inspect,
    must_inspect,
)
from headrace.log.config import LogConfig
from headrace.log.errors import BatchTooLarge, InvalidRecord, InvalidTimestamp, RecordsWithoutKey
from headrace.records.batch import read_header
from headrace.records.compression import Codec
from headrace.records.control import EndTransactionMarker, MarkerType, encode_marker_batch
from headrace.records.errors import InvalidBatch
from headrace.records.record import decode_records
from tests.log.batches import NOW_MS, batch

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
MARKER = encode_marker_batch(
    EndTransactionMarker(type=MarkerType.COMMIT, coordinator_epoch=0),
    producer_id=1,
    producer_epoch=0,
    timestamp_ms=NOW_MS,
)


def test_valid_batch_returns_the_fields_of_its_header() -> None:
    sent = batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=3)
    assert check_batch(sent, LogConfig(), NOW_MS, from_client=True) == astuple(read_header(sent))


@given(st.data())
def test_no_flipped_bit_after_the_leader_epoch_is_accepted(data: st.DataObject) -> None:
    sent = bytearray(batch(b"some value"))
    bit = data.draw(st.integers(8 * 16, 8 * len(sent) - 1))
    sent[bit // 8] ^= 1 << bit % 8
    with pytest.raises(HeadraceError):
        check_batch(sent, LogConfig(), NOW_MS, from_client=True)


@given(st.integers(0, 100))
def test_no_cut_batch_gets_through(size: int) -> None:
    sent = batch(b"x" * 60)
    with pytest.raises(InvalidBatch, match="bytes"):
        check_batch(sent[:size], LogConfig(), NOW_MS, from_client=True)


def test_size_is_bounded_by_the_topic() -> None:
    sent = batch(b"x" * 60)
    check_batch(sent, LogConfig(batch_bytes_max=len(sent)), NOW_MS, from_client=True)
    with pytest.raises(BatchTooLarge, match=f"{len(sent)} bytes"):
        check_batch(sent, LogConfig(batch_bytes_max=len(sent) - 1), NOW_MS, from_client=True)


def test_timestamps_are_bounded_on_both_sides() -> None:
    config = LogConfig(timestamp_before_max_ms=1000, timestamp_after_max_ms=10)

    def check(timestamp_ms: int) -> None:
        check_batch(batch(b"x", timestamp_ms=timestamp_ms), config, NOW_MS, from_client=True)

    check(NOW_MS - 1000)
    check(NOW_MS + 10)
    for timestamp_ms in (NOW_MS - 1001, NOW_MS + 11):
        with pytest.raises(InvalidTimestamp):
            check(timestamp_ms)


def test_only_the_broker_writes_markers() -> None:
    check_batch(MARKER, LogConfig(), NOW_MS, from_client=False)
    with pytest.raises(InvalidRecord, match="control"):
        check_batch(MARKER, LogConfig(), NOW_MS, from_client=True)


def test_idempotent_producer_must_send_a_sequence() -> None:
    with pytest.raises(InvalidRecord, match="sequence"):
        check_batch(batch(b"x", producer_id=7, producer_epoch=0), LogConfig(), NOW_MS, from_client=True)


def test_records_are_decoded_only_where_the_topic_requires_it() -> None:
    sent = batch(b"x")
    recompressing = LogConfig(compression=Codec.GZIP)
    assert [may_inspect(config) for config in (LogConfig(), COMPACTED, recompressing)] == [False, True, True]
    assert must_inspect(sent, recompressing)
    assert not must_inspect(batch(b"x", codec=Codec.GZIP), recompressing)
    assert not must_inspect(MARKER, recompressing)
    assert not must_inspect(sent[:20], COMPACTED)
    assert inspect(sent, LogConfig(), from_client=True) is sent


def test_records_without_a_key_are_named() -> None:
    with pytest.raises(RecordsWithoutKey) as caught:
        inspected_batch(batch(b"a", b"b"), COMPACTED, NOW_MS)
    assert caught.value.indexes == (0, 1)
    keyed = batch(b"a", key=b"k")
    assert inspected_batch(keyed, COMPACTED, NOW_MS) is keyed


@pytest.mark.parametrize("codec", list(Codec))
def test_inspected_batch_has_the_codec_of_the_topic_and_the_same_records(codec: Codec) -> None:
    sent = batch(b"a" * 50, b"b", codec=Codec.ZSTD)
    stored = inspected_batch(sent, LogConfig(compression=codec), NOW_MS)
    assert read_header(stored).compression is codec
    assert decode_records(stored, bytes_max=1000) == decode_records(sent, bytes_max=1000)


def test_log_append_time_replaces_the_timestamps() -> None:
    config = LogConfig(timestamp_type="LogAppendTime")
    assert (is_stored_unchanged(LogConfig()), is_stored_unchanged(config)) == (True, False)
    stored = as_stored(batch(b"a", timestamp_ms=5), config, NOW_MS)
    assert [record.timestamp_ms for record in decode_records(stored, bytes_max=100)] == [NOW_MS]
    check_batch(batch(b"a", timestamp_ms=5), config, NOW_MS, from_client=True)
