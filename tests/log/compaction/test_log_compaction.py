"""Compaction of a whole log: the last value of every key stays at its offset, across restarts and crashes."""

from __future__ import annotations

import shutil
from pathlib import Path

from msgspec.structs import replace

from headrace.log.config import LogConfig
from headrace.log.partition_log import PartitionLog
from headrace.testing.failing_filesystem import FailingFileSystem, PowerLost
from tests.log.batches import NOW_MS, NotSyncing, batch, open_log, read_all

CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes_max=400,
    index_interval_bytes=100,
    file_delete_delay_ms=0,
)

# Several old segments fit into one new one.
GROUPING = replace(CONFIG, segment_bytes_max=1300)


def filled_log(directory: Path) -> PartitionLog:
    log = open_log(directory, CONFIG, files=NotSyncing())
    for number in range(40):
        log.append(batch(b"%d" % number, key=b"key %d" % (number % 3)), now_ms=NOW_MS)
    log.flush()
    return log


def compact(log: PartitionLog) -> bool:
    pass_due = log.compaction.plan(NOW_MS)
    if pass_due is None:
        return False
    log.compaction.finish(pass_due.run())
    return True


def table(log: PartitionLog) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {record.key: (record.offset, record.value) for record in read_all(log)}


def test_last_value_of_every_key_stays_at_its_offset(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    before, size_bytes = table(log), log.segments.size_bytes
    assert compact(log)
    assert table(log) == before
    assert len(read_all(log)) < 10
    assert log.segments.size_bytes < size_bytes / 2
    assert not compact(log), "nothing is dirty now"
    for offset in range(log.end_offset):
        assert read_all(log, offset)[0].offset >= offset
    assert log.append(batch(b"next", key=b"n"), now_ms=NOW_MS).base_offset == 40


def test_compacted_log_reopens_clean_and_unclean(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    compact(log)
    expected = table(log)
    crashed = open_log(tmp_path, CONFIG, files=NotSyncing())
    assert (table(crashed), crashed.read_only_reason) == (expected, None)
    closed = crashed.close()
    clean = open_log(tmp_path, CONFIG, was_clean=True, recovery_offset=closed.end_offset)
    assert (table(clean), clean.end_offset) == (expected, 40)


def test_gaps_of_compaction_are_no_damage_after_the_policy_changed(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    compact(log)
    expected = table(log)
    reopened = open_log(tmp_path, LogConfig(segment_bytes_max=400), files=NotSyncing())
    assert (table(reopened), reopened.read_only_reason) == (expected, None)


def test_power_cut_at_any_step_of_the_swap_loses_no_value(tmp_path: Path) -> None:
    expected = table(filled_log(tmp_path / "original"))
    steps = 0
    finished = False
    while not finished:
        directory = tmp_path / "cut"
        shutil.copytree(tmp_path / "original", directory)
        files = FailingFileSystem(files=NotSyncing())
        log = open_log(directory, GROUPING, files=files, was_clean=True, recovery_offset=40)
        assert table(log) == expected
        due = log.compaction.plan(NOW_MS)
        assert due is not None
        compacted = due.run()
        assert any(len(replacement.sources) > 1 for replacement in compacted.replacements)
        files.lose_power_at(steps)
        try:
            log.compaction.finish(compacted)
            finished = True
        except PowerLost:
            steps += 1
        again = open_log(directory, GROUPING, files=NotSyncing())
        assert (table(again), again.end_offset, again.read_only_reason) == (expected, 40, None), steps
        compact(again)
        assert table(again) == expected
        leftover = [path.name for path in directory.iterdir() if path.suffix in (".cleaned", ".swap")]
        assert leftover == []
        shutil.rmtree(directory)
    assert steps > 10


def test_retention_that_is_faster_than_compaction_wins(tmp_path: Path) -> None:
    log = filled_log(tmp_path)
    due = log.compaction.plan(NOW_MS)
    assert due is not None
    compacted = due.run()
    log.retention.delete_records_before(20)
    log.compaction.finish(compacted)
    assert log.start_offset == 20
    assert set(table(log)) == {b"key 0", b"key 1", b"key 2"}
    assert not list(tmp_path.glob("*.cleaned"))
