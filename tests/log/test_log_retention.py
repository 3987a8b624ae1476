"""Removing from the start of a log, and finding records by time."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import OffsetOutOfRange
from tests.log.batches import NOW_MS, batch, open_log, read_all

CONFIG = LogConfig(segment_bytes_max=400, index_interval_bytes=100, file_delete_delay_ms=1000)


def test_deleted_records_and_their_segments_are_removed(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("fault", ["older", "garbage", "gone"])
def test_damaged_time_index_removes_no_segment_early(tmp_path: Path, fault: str) -> None:
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
