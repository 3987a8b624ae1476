"""Removing from the start of a log, and finding records by time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import OffsetOutOfRange
from headrace.testing.manual_clock import ManualClock
from tests.log.batches import NOW_MS, batch, open_log, read_all

CONFIG = LogConfig(segment_bytes_max=400, index_interval_bytes=100, file_delete_delay_ms=1000)


def test_deleted_records_are_gone_and_their_segments_too(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(30):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    segments = len(log.segments)
    assert log.retention.delete_records_before(17) == 17
    assert len(log.segments) < segments
    assert read_all(log)[0].offset == 17
    with pytest.raises(OffsetOutOfRange):
        log.reader.read(16, bytes_max=100, end_offset=30, at_least_one=True)
    with pytest.raises(OffsetOutOfRange):
        log.retention.delete_records_before(31)
    assert log.retention.delete_records_before(3) == 17
    reopened = open_log(tmp_path, CONFIG, start_offset=17)
    assert (reopened.start_offset, read_all(reopened)[0].offset) == (17, 17)


def test_all_records_can_be_deleted(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(10):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    assert log.retention.delete_records_before(10) == 10
    assert log.reader.read(10, bytes_max=100, end_offset=10, at_least_one=True) == b""
    reopened = open_log(tmp_path, CONFIG, start_offset=10)
    assert (reopened.start_offset, reopened.end_offset) == (10, 10)
    assert reopened.append(batch(b"next"), now_ms=NOW_MS).base_offset == 10


def test_files_of_removed_segments_wait_for_their_delay(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(30):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    log.retention.delete_records_before(17)
    assert list(tmp_path.glob("*.log.deleted"))
    assert log.retired.remove_due(NOW_MS + 999) == 0
    assert log.retired.remove_due(NOW_MS + 1000) > 0
    assert not list(tmp_path.glob("*.deleted"))


def test_retention_by_size_keeps_at_least_the_size(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes_max=400, retention_bytes=900))
    for number in range(60):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    removed = log.retention.apply(NOW_MS)
    assert removed
    assert 900 <= log.segments.size_bytes < 1300
    assert log.start_offset == read_all(log)[0].offset > 0


def test_retention_by_time_removes_even_the_active_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes_max=400, retention_ms=1000))
    for number in range(20):
        log.append(batch(b"%d" % number, timestamp_ms=NOW_MS), now_ms=NOW_MS)
    assert log.retention.apply(NOW_MS + 1000) == []
    assert len(log.retention.apply(NOW_MS + 1001)) > 1
    assert (log.start_offset, log.end_offset, log.segments.size_bytes) == (20, 20, 0)
    assert log.append(batch(b"next"), now_ms=NOW_MS).base_offset == 20
    reopened = open_log(tmp_path, CONFIG)
    assert (reopened.start_offset, reopened.end_offset) == (20, 21)


def test_reader_inside_a_removed_segment_is_told_the_new_start(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    for number in range(30):
        log.append(batch(b"%d" % number), now_ms=NOW_MS)
    log.reader.read(0, bytes_max=100, end_offset=30, at_least_one=True)
    log.retention.delete_records_before(20)
    log.retired.remove_due(NOW_MS + 5000)
    with pytest.raises(OffsetOutOfRange) as caught:
        log.reader.read(1, bytes_max=100, end_offset=30, at_least_one=True)
    assert caught.value.start_offset == 20
    assert not list(tmp_path.glob("*0000.log*")), "reading must not bring a removed file back"


def test_active_segment_is_closed_by_age(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_ms=1000))
    log.append(batch(b"a", timestamp_ms=NOW_MS), now_ms=NOW_MS)
    log.append(batch(b"b", timestamp_ms=NOW_MS + 1000), now_ms=NOW_MS)
    assert len(log.segments) == 1
    log.append(batch(b"c", timestamp_ms=NOW_MS + 1001), now_ms=NOW_MS)
    assert len(log.segments) == 2


@pytest.mark.parametrize("reopened", [False, True])
def test_first_record_at_or_after_a_time_is_found(tmp_path: Path, reopened: bool) -> None:
    log = open_log(tmp_path, CONFIG)
    times = [NOW_MS + delta for delta in (0, 5, 3, 10, 10, 7, 20, 30, 25, 40, 50, 45, 60, 61, 62, 63, 64, 70)]
    for time_ms in times:
        log.append(batch(b"x", timestamp_ms=time_ms), now_ms=NOW_MS)
    if reopened:
        closed = log.close()
        log = open_log(tmp_path, CONFIG, was_clean=True, recovery_offset=closed.end_offset)
    for wanted in range(NOW_MS - 1, NOW_MS + 72):
        expected = next((offset for offset, time_ms in enumerate(times) if time_ms >= wanted), None)
        found = log.reader.offset_for_timestamp(wanted, end_offset=log.end_offset)
        assert (found and found.offset) == expected
    largest = log.reader.max_timestamp()
    assert largest is not None
    assert (largest.offset, largest.timestamp_ms) == (17, NOW_MS + 70)
    assert log.reader.offset_for_timestamp(NOW_MS + 70, end_offset=17) is None


def test_record_inside_a_batch_is_found_by_time(tmp_path: Path) -> None:
    log = open_log(tmp_path, CONFIG)
    log.append(batch(b"a", b"b", timestamp_ms=NOW_MS), now_ms=NOW_MS)
    log.append(batch(b"c", b"d", timestamp_ms=NOW_MS + 5), now_ms=NOW_MS)
    log.retention.delete_records_before(3)
    found = log.reader.offset_for_timestamp(NOW_MS, end_offset=4)
    assert found is not None
    assert (found.offset, found.timestamp_ms, found.leader_epoch) == (3, NOW_MS + 5, log.leader_epoch)


def test_deletion_is_no_trouble_to_warn_of(tmp_path: Path) -> None:
    events: list[tuple[str, Mapping[str, object]]] = []
    log = open_log(tmp_path / "t-0", events=events)
    log.append(batch(b"a"), now_ms=NOW_MS)
    events.clear()
    log.delete()
    assert events == []


def test_deleted_partition_leaves_nothing_and_its_name_is_free(tmp_path: Path) -> None:
    directory = tmp_path / "clicks-0"
    log = open_log(directory, CONFIG)
    log.append(batch(b"a"), now_ms=NOW_MS)
    log.delete()
    assert list(tmp_path.iterdir()) == []
    assert open_log(directory, CONFIG).end_offset == 0


def test_idle_producers_are_forgotten(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    log = open_log(tmp_path, LogConfig(producer_id_expiration_ms=1000), clock=clock)
    log.append(batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0), now_ms=NOW_MS)
    log.append(batch(b"a", producer_id=2, producer_epoch=0, base_sequence=0), now_ms=NOW_MS + 500)
    log.checkpoint(NOW_MS + 1001)
    assert (1 in log.producers, 2 in log.producers) == (False, True)


@pytest.mark.parametrize("fault", ["older", "garbage", "gone"])
def test_damaged_time_index_lets_no_segment_go_early(tmp_path: Path, fault: str) -> None:
    config = LogConfig(segment_bytes_max=400, retention_ms=1000)
    log = open_log(tmp_path, config)
    for number in range(20):
        log.append(batch(b"%d" % number, timestamp_ms=NOW_MS + number), now_ms=NOW_MS)
    closed = log.close()
    for path in tmp_path.glob("*.timeindex"):
        if fault == "older":
            path.write_bytes(bytes(7) + path.read_bytes()[7:])
        elif fault == "garbage":
            path.write_bytes(b"\0\1" * 6)
        else:
            path.write_bytes(b"")
    again = open_log(tmp_path, config, was_clean=True, recovery_offset=closed.end_offset)
    assert again.retention.apply(NOW_MS + 1000) == []
    assert len(read_all(again)) == 20
    if fault == "older":
        assert len(again.retention.apply(NOW_MS + 1020)) == len(closed.segment_bytes)
