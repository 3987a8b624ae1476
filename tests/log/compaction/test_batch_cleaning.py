from __future__ import annotations

from pathlib import Path

import pytest
from kafka.record.default_records import DefaultRecordBatch

from headrace.records.batch import HEADER_BYTES, TimestampType, checksum_matches, read_header
from headrace.records.compression import Codec
from headrace.records.record import Record, encode_batch
from tests.log.compaction.cleaning_lab import (
    CONFIG,
    NOW_MS,
    LogOnDisk,
    keyed_batch,
    keyed_record,
)


@pytest.fixture
def log(tmp_path: Path) -> LogOnDisk:
    return LogOnDisk(tmp_path)


def test_batch_whose_records_all_survive_is_copied_byte_for_byte(log: LogOnDisk) -> None:
    kept = keyed_batch(3, ("b", "2"), ("c", "3"), codec=Codec.ZSTD)
    log.write_segment(keyed_batch(0, ("a", "1"), ("a", "2"), ("a", "3")), kept)
    log.compact()
    assert log.batches()[1] == kept


def test_log_append_time_stays_the_batch_s_own(log: LogOnDisk) -> None:
    records = [keyed_record(0, "a", "1"), keyed_record(1, "b", "1"), keyed_record(2, "a", "2")]
    log.write_segment(encode_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME))
    log.compact()
    assert [(record.offset, record.timestamp_ms) for record in log.records()] == [(1, 1002), (2, 1002)]


def test_largest_timestamp_is_that_of_the_records_that_are_left(log: LogOnDisk) -> None:
    records = [keyed_record(0, "a", "1", 9000), keyed_record(1, "b", "1", 10), keyed_record(2, "a", "2", 20)]
    log.write_segment(encode_batch(records))
    log.compact()
    (batch,) = log.batches()
    assert read_header(batch).max_timestamp_ms == 22


def test_records_without_a_key_are_removed(log: LogOnDisk) -> None:
    keyless = Record(offset=1, timestamp_ms=0, key=None, value=b"old")
    log.write_segment(encode_batch([keyed_record(0, "a", "1"), keyless]))
    log.compact()
    assert [record.key for record in log.records()] == [b"a"]


def test_tombstone_gets_a_delete_horizon_and_keeps_its_timestamp(log: LogOnDisk) -> None:
    for codec in Codec:
        log = LogOnDisk(log.directory / codec.name)
        log.write_segment(
            keyed_batch(0, ("a", "1"), ("b", "1")), keyed_batch(2, ("a", None), ("c", "1"), codec=codec)
        )
        before = {record.offset: record for record in log.records()}
        log.compact()
        batch = log.batches()[-1]
        assert read_header(batch).delete_horizon_ms == NOW_MS + CONFIG.delete_retention_ms
        assert read_header(batch).max_timestamp_ms == before[3].timestamp_ms
        assert log.records() == [before[1], before[2], before[3]]


def test_tombstone_is_removed_once_its_horizon_has_passed_and_not_before(log: LogOnDisk) -> None:
    log.write_segment(keyed_batch(0, ("a", "1"), ("b", "1")), keyed_batch(2, ("a", None), ("c", "1")))
    log.compact()
    marked = log.batches()
    log.compact(now_ms=NOW_MS + CONFIG.delete_retention_ms - 1)
    assert log.batches() == marked
    log.compact(now_ms=NOW_MS + CONFIG.delete_retention_ms)
    assert [(record.offset, record.key) for record in log.records()] == [(1, b"b"), (3, b"c")]


def test_horizon_is_set_once_and_kept_by_later_passes(log: LogOnDisk) -> None:
    log.write_segment(keyed_batch(0, ("a", None), ("b", "1"), ("c", "1")))
    log.compact()
    log.write_segment(keyed_batch(3, ("b", "2")))
    log.compact(now_ms=NOW_MS + 500)
    header = read_header(log.batches()[0])
    assert header.delete_horizon_ms == NOW_MS + CONFIG.delete_retention_ms
    assert [record.timestamp_ms for record in log.records()] == [1000, 1002, 1003]


def test_clock_of_a_tombstone_starts_only_when_a_pass_covers_it(log: LogOnDisk) -> None:
    log.write_segment(keyed_batch(0, ("a", "1")), keyed_batch(1, ("b", "1")), keyed_batch(2, ("a", None)))
    done = log.compact(offset_map_entries_max=2)
    assert done.first_dirty_offset == 2
    assert not read_header(log.batches()[-1]).has_delete_horizon


def test_batch_with_the_last_sequence_of_an_active_producer_is_kept_as_a_bare_header(log: LogOnDisk) -> None:
    log.write_segment(
        keyed_batch(0, ("a", "1"), ("a", "2"), producer_id=7),
        keyed_batch(2, ("a", "3"), ("a", "4"), producer_id=7, codec=Codec.GZIP),
        keyed_batch(4, ("a", "5")),
        keyed_batch(5, ("b", "1")),
    )
    log.compact(last_offset_of_producers={7: 3})
    empty, *others = log.batches()
    header = read_header(empty)
    assert (len(empty), header.record_count, header.compression) == (HEADER_BYTES, 0, Codec.NONE)
    assert (header.base_offset, header.last_offset) == (2, 3)
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (7, 0, 3)
    assert checksum_matches(empty)
    assert DefaultRecordBatch(empty).validate_crc()
    assert [read_header(batch).base_offset for batch in others] == [4, 5]


def test_bare_header_is_removed_when_its_producer_is_no_longer_active(log: LogOnDisk) -> None:
    log.write_segment(keyed_batch(0, ("a", "1"), producer_id=7), keyed_batch(1, ("a", "2")))
    log.compact(last_offset_of_producers={7: 0})
    assert len(log.batches()) == 2
    log.compact(last_offset_of_producers={7: 0})
    assert len(log.batches()) == 2
    log.compact()
    assert [read_header(batch).base_offset for batch in log.batches()] == [1]
