"""A compaction pass over the files of a log: what it writes, syncs and removes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log.compaction.cleaner import CompactionFailed
from headrace.log.compaction.compaction_pass import cleaned_segment_of, compaction_segment
from headrace.log.config import LogConfig
from headrace.log.partition_log import PartitionLog
from headrace.testing.failing_filesystem import FailingFileSystem
from tests.log.batches import NOW_MS, batch, open_log

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes_max=500,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.1,
)


def dirty_log(folder: Path, files: FailingFileSystem) -> PartitionLog:
    log = open_log(folder, CONFIG, files=files)
    for number in range(40):
        log.append(
            batch(b"%d" % number, key=b"k%d" % (number % 3), timestamp_ms=NOW_MS + number), now_ms=NOW_MS
        )
    log.flush()
    return log


def test_plan_sees_the_segments_as_they_are(tmp_path: Path) -> None:
    log = dirty_log(tmp_path, FailingFileSystem())
    first = log.segments.view.segments[0]
    seen = compaction_segment(first)
    assert (seen.base_offset, seen.path, seen.size_bytes) == (0, Path(first.path), first.size_bytes)
    assert (seen.first_timestamp_ms, seen.max_timestamp_ms) == (NOW_MS, NOW_MS + first.next_offset - 1)
    assert seen.index_bytes == first.index_bytes


def test_pass_changes_no_segment_and_syncs_what_it_writes(tmp_path: Path) -> None:
    files = FailingFileSystem()
    log = dirty_log(tmp_path, files)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.log")}
    due = log.compaction.plan(NOW_MS)
    assert due is not None
    del files.operations[:]
    done = due.run()
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.log")} == before
    assert done.replacements
    for replacement in done.replacements:
        segment = cleaned_segment_of(replacement)
        assert segment.path.endswith(".log.cleaned")
        assert segment.synced_bytes == segment.size_bytes == replacement.size_bytes
        for kind in (".log", ".index", ".timeindex"):
            assert ("sync", segment.stem + kind + ".cleaned") in files.operations


def test_failed_pass_leaves_no_files(tmp_path: Path) -> None:
    files = FailingFileSystem()
    log = dirty_log(tmp_path, files)
    due = log.compaction.plan(NOW_MS)
    assert due is not None
    files.fail("sync", "*.cleaned", skip=1)
    with pytest.raises(OSError, match="error"):
        due.run()
    assert list(tmp_path.glob("*.cleaned")) == []


def test_pass_stops_when_the_log_becomes_read_only(tmp_path: Path) -> None:
    log = dirty_log(tmp_path, FailingFileSystem())
    due = log.compaction.plan(NOW_MS)
    assert due is not None
    log.close()
    with pytest.raises(CompactionFailed, match="stopped"):
        due.run()
    assert list(tmp_path.glob("*.cleaned")) == []
