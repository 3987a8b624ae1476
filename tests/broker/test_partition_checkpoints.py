"""The checkpoints of partitions: what a start knows of the logs before it opens them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.broker.partition_checkpoints import PartitionCheckpoints
from headrace.log.checkpoints import CLEAN_SHUTDOWN_NAME, RECOVERY_POINT_NAME, CleanStop, LogCheckpoint
from headrace.log.filesystem import DiskFileSystem

A0, A1 = ("a", 0), ("a", 1)
STOP = CleanStop(start_offset=2, end_offset=9, segment_bytes={0: 100})


def loaded(folder: Path) -> PartitionCheckpoints:
    made = PartitionCheckpoints(DiskFileSystem(), str(folder))
    made.load()
    return made


def test_offsets_are_read_after_a_crash(tmp_path: Path) -> None:
    checkpoints = loaded(tmp_path)
    checkpoints.put(A0, start_offset=2, recovery_offset=7)
    checkpoints.put(A1, start_offset=0)
    checkpoints.write()
    after = loaded(tmp_path)
    assert after.get(A0) == LogCheckpoint(False, None, 7, 2)
    assert after.get(A1) == LogCheckpoint(False, None, 0, 0)
    assert after.names() == {A0, A1}


def test_clean_stop_counts_once(tmp_path: Path) -> None:
    checkpoints = loaded(tmp_path)
    checkpoints.put(A0, start_offset=2, recovery_offset=9)
    checkpoints.write()
    checkpoints.mark_clean_stop({A0: STOP})
    assert loaded(tmp_path).get(A0) == LogCheckpoint(True, STOP, 9, 2)
    assert loaded(tmp_path).get(A0) == LogCheckpoint(False, None, 9, 2), "a crash since then"


def test_clean_stop_restores_checkpoints_that_were_damaged_since(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = loaded(tmp_path)
    checkpoints.put(A0, start_offset=2, recovery_offset=9)
    checkpoints.write()
    checkpoints.mark_clean_stop({A0: STOP})
    (tmp_path / RECOVERY_POINT_NAME).write_text("nonsense\n")
    assert loaded(tmp_path).get(A0) == LogCheckpoint(True, STOP, 9, 2)
    assert "checkpoint ignored" in caplog.text
    assert loaded(tmp_path).get(A0) == LogCheckpoint(False, None, 9, 2), "and writes them again"


def test_damaged_mark_of_the_stop_makes_all_logs_be_checked(tmp_path: Path) -> None:
    checkpoints = loaded(tmp_path)
    checkpoints.mark_clean_stop({A0: STOP})
    (tmp_path / CLEAN_SHUTDOWN_NAME).write_text("nonsense")
    assert not loaded(tmp_path).get(A0).was_clean


def test_new_partition_does_not_inherit_offsets_of_a_deleted_one(tmp_path: Path) -> None:
    checkpoints = loaded(tmp_path)
    checkpoints.put(A0, start_offset=2, recovery_offset=9)
    checkpoints.write()
    checkpoints.forget(A0)
    assert checkpoints.get(A0).start_offset is None
    assert loaded(tmp_path).names() == {A0}, "the files still have them"
    checkpoints.prepare(A0)
    assert loaded(tmp_path).names() == set()
