"""What a flush covers, and what it leaves for the next."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.log.config import LogConfig
from headrace.log.errors import StorageFailed
from headrace.records.batch import (
    iterate_headers,
)
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.log.batches import NOW_MS, batch, open_log

SMALL = LogConfig(segment_bytes_max=2000, index_interval_bytes=200)


def test_flush_covers_only_batches_appended_before_it_started(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    log.append(batch(b"a"), now_ms=NOW_MS)
    first = log.flusher.begin()
    while len(log.segments) < 3:
        log.append(batch(b"more" * 20), now_ms=NOW_MS)
    second = log.flusher.begin()
    log.append(batch(b"last"), now_ms=NOW_MS)
    first.sync()
    log.flusher.finish(first)
    assert log.durable_offset == 1
    found = bytes(log.reader.read(0, bytes_max=10_000, end_offset=log.durable_offset, at_least_one=True))
    assert [header.next_offset for _, header in iterate_headers(found)] == [1]
    second.sync()
    log.flusher.finish(second)
    assert log.durable_offset == log.end_offset - 1
    assert second.flushed_bytes > first.flushed_bytes > 0
    log.flush()
    assert log.durable_offset == log.end_offset
    assert log.flusher.begin().unsynced == ()


def test_closed_segments_are_synced_with_their_indexes_oldest_first(tmp_path: Path) -> None:
    files = FailingFileSystem()
    log = open_log(tmp_path, SMALL, files=files)
    while len(log.segments) < 3:
        log.append(batch(b"x" * 100), now_ms=NOW_MS)
    flush = log.flusher.begin()
    del files.operations[:]
    flush.sync()
    synced = [os.path.basename(path) for operation, path in files.operations if operation == "sync"]
    first, second, active = (f"{base:020d}" for base in log.segments.base_offsets)
    assert synced == [
        *(first + suffix for suffix in (".log", ".index", ".timeindex")),
        *(second + suffix for suffix in (".log", ".index", ".timeindex")),
        active + ".log",
    ]
    assert ("sync_directory", str(tmp_path)) in files.operations


def test_folder_is_synced_only_after_names_changed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append(batch(b"a"), now_ms=NOW_MS)
    assert [entry.path for entry in log.flusher.begin().directories] == [str(tmp_path), str(tmp_path.parent)]
    log.flush()
    log.append(batch(b"b"), now_ms=NOW_MS)
    assert log.flusher.begin().directories == ()


def test_segment_that_left_the_log_is_not_flushed(tmp_path: Path) -> None:
    log = open_log(tmp_path, SMALL)
    while len(log.segments) < 3:
        log.append(batch(b"x" * 100), now_ms=NOW_MS)
    log.retention.delete_records_before(log.segments.base_offsets[1])
    flushed = [entry.segment for entry in log.flusher.begin().unsynced]
    assert flushed == list(log.segments.view.segments)


def test_failed_flush_makes_nothing_durable_and_the_log_read_only(tmp_path: Path) -> None:
    files = FailingFileSystem()
    log = open_log(tmp_path, files=files)
    log.append(batch(b"a"), now_ms=NOW_MS)
    files.fail("sync", "*.log")
    with pytest.raises(StorageFailed, match="fsync"):
        log.flush()
    assert log.durable_offset == 0
    assert "fsync failed" in str(log.read_only_reason)
