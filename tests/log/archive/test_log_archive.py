"""A partition whose old segments are in an archive: everything is found as if it were local."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.log.archive.fsspec_store import open_store
from headrace.log.errors import ArchiveUnreachable, OffsetOutOfRange, WouldBlock
from headrace.records.control import MarkerType
from tests.log.archive.archive_lab import (
    CONFIG,
    ArchiveLab,
    local_only_newest,
    marker,
    numbers,
    transactional,
)
from tests.log.batches import NOW_MS, batch, read_all, values


def test_active_and_unsynced_segments_are_not_archived(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    for number in range(30):
        lab.log.append(batch(b"%d" % number), now_ms=NOW_MS)
    assert lab.log.archive.segments_to_copy() == []
    lab.log.flush()
    bases = [segment.base_offset for segment in lab.log.archive.segments_to_copy()]
    assert bases == lab.log.segments.base_offsets[:-1]


def test_segments_of_an_open_transaction_wait_for_its_end(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    lab.append(10)
    lab.log.append(transactional(0), now_ms=NOW_MS)
    lab.append(20)
    waiting = lab.log.archive.segments_to_copy()
    assert waiting
    assert waiting[-1].next_offset <= 10
    lab.log.append(marker(MarkerType.COMMIT), now_ms=NOW_MS, from_client=False)
    lab.log.flush()
    assert lab.log.archive.segments_to_copy()[-1].next_offset > 10


def test_records_are_read_across_archive_and_disk_from_any_offset(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    log = lab.archived_to_the_end()
    assert (log.start_offset, log.end_offset) == (0, 30)
    assert log.segments.local_start_offset > 20
    for offset in range(31):
        assert values(read_all(log, offset, bytes_max=10_000)) == numbers(offset, 30)
        assert values(read_all(log, offset, bytes_max=1)) == numbers(offset, 30)


def test_reads_keep_their_bounds_in_the_archive(tmp_path: Path) -> None:
    log = ArchiveLab(tmp_path).archived_to_the_end()
    assert log.reader.read(3, bytes_max=1, end_offset=30, at_least_one=False) == b""
    assert log.reader.read(3, bytes_max=999, end_offset=3, at_least_one=True) == b""
    one = log.reader.read(3, bytes_max=1, end_offset=30, at_least_one=True)
    assert values(read_all(log, 3))[:1] == [b"3"]
    assert len(one) < 100
    below = bytes(log.reader.read(0, bytes_max=10_000, end_offset=2, at_least_one=True))
    assert len(below) == 2 * len(one)
    with pytest.raises(WouldBlock):
        log.reader.read(3, bytes_max=100, end_offset=30, at_least_one=True, nowait=True)
    with pytest.raises(OffsetOutOfRange):
        log.reader.read(31, bytes_max=100, end_offset=31, at_least_one=True)


def test_archive_at_an_fsspec_address_reads_the_same(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path, store=open_store(f"memory://{tmp_path}"))
    assert values(read_all(lab.archived_to_the_end())) == numbers(0, 30)


def test_records_are_found_by_time_in_the_archive(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    for step in range(30):
        lab.append(1, timestamp_ms=NOW_MS + 10 * step)
    lab.copy()
    lab.log.reconfigure(local_only_newest(CONFIG))
    lab.log.archive.remove_local_copies(NOW_MS)
    log = lab.log
    for step in range(30):
        for since_ms in (NOW_MS + 10 * step - 9, NOW_MS + 10 * step):
            found = log.reader.offset_for_timestamp(since_ms, end_offset=30)
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (step, NOW_MS + 10 * step)
    assert log.reader.offset_for_timestamp(NOW_MS + 291, end_offset=30) is None
    assert log.reader.offset_for_timestamp(NOW_MS + 50, end_offset=5) is None
    newest = log.reader.max_timestamp()
    assert newest is not None
    assert newest.offset == 29
    early = log.reader.offset_for_timestamp(NOW_MS + 50, end_offset=30, searches_archive=False)
    assert early is not None
    assert log.archive.entries[0].base_offset <= early.offset <= 5


def test_largest_timestamp_may_be_in_the_archive(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    lab.append(1, timestamp_ms=NOW_MS + 5000)
    log = lab.archived_to_the_end()
    newest = log.reader.max_timestamp()
    assert newest is not None
    assert newest.offset == 0


def test_start_finds_the_archive_again_without_reading_it(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    lab.archived_to_the_end()
    lab.root.rename(tmp_path / "elsewhere")
    reopened = lab.open(CONFIG)
    assert (reopened.start_offset, reopened.end_offset) == (0, 30)
    with pytest.raises(ArchiveUnreachable):
        reopened.reader.read(0, bytes_max=100, end_offset=30, at_least_one=True)
    assert values(read_all(reopened, reopened.segments.local_start_offset)) == numbers(
        reopened.segments.local_start_offset, 30
    )
    (tmp_path / "elsewhere").rename(lab.root)
    assert values(read_all(reopened)) == numbers(0, 30)


def test_deleted_records_are_deleted_in_the_archive_too(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    log = lab.archived_to_the_end()
    first, second = log.archive.entries[:2]
    assert log.retention.delete_records_before(second.base_offset + 1) == second.base_offset + 1
    assert log.archive.entries[0] == second
    with pytest.raises(OffsetOutOfRange):
        log.reader.read(first.base_offset, bytes_max=100, end_offset=30, at_least_one=True)
    assert values(read_all(log)) == numbers(second.base_offset + 1, 30)
    reopened = lab.open(CONFIG, start_offset=second.base_offset + 1)
    assert reopened.start_offset == second.base_offset + 1
    assert reopened.archive.entries[0] == second
    assert reopened.retention.delete_records_before(30) == 30
    assert reopened.archive.entries == ()


def test_retention_counts_archive_and_disk_together(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    log = lab.archived_to_the_end()
    whole_bytes = log.segments.size_bytes + sum(entry.size_bytes for entry in log.archive.entries)
    first = log.archive.entries[0]
    log.reconfigure(replace(log.config, retention_bytes=whole_bytes - first.size_bytes))
    assert [expired.base_offset for expired in log.retention.apply(NOW_MS)] == [0]
    assert log.start_offset == first.next_offset
    assert log.retention.apply(NOW_MS) == []
    assert values(read_all(log)) == numbers(first.next_offset, 30)


def test_retention_by_time_covers_archive_and_disk(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    log = lab.archived_to_the_end()
    log.reconfigure(replace(log.config, retention_ms=1000))
    assert log.retention.apply(NOW_MS + 1000) == []
    assert len(log.retention.apply(NOW_MS + 1001)) > 3
    assert (log.start_offset, log.archive.entries) == (30, ())
    lab.append(1)
    assert values(read_all(log)) == [b"30"]


def test_archive_of_a_topic_that_is_no_longer_archived_is_dropped(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    log = lab.archived_to_the_end()
    local_start = log.segments.local_start_offset
    log.reconfigure(replace(CONFIG, is_archived=False))
    assert (log.start_offset, log.archive.entries) == (local_start, ())
    assert values(read_all(log)) == numbers(local_start, 30)
    reopened = lab.open(replace(CONFIG, is_archived=False))
    assert (reopened.start_offset, reopened.archive.entries) == (local_start, ())
    assert lab.own.listed


def test_cache_stays_within_its_bound(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path, cache_bytes_max=400)
    log = lab.archived_to_the_end(200)
    assert values(read_all(log)) == numbers(0, 200)
    assert lab.cache.size_bytes <= 400
    assert sum(path.stat().st_size for path in (tmp_path / "cache").iterdir()) <= 400


def test_snapshots_wait_for_their_segments_and_no_longer(tmp_path: Path) -> None:
    lab = ArchiveLab(tmp_path)
    lab.append(30)
    assert len(list(lab.directory.glob("*.snapshot"))) == len(lab.log.segments) - 1
    lab.archived_to_the_end(10)
    lab.log.checkpoint(NOW_MS)
    assert len(list(lab.directory.glob("*.snapshot"))) <= 2
