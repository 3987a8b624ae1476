"""Checkpoint files: Kafka's format, replaced as a whole, and never believed when damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.log import checkpoints
from headrace.log.checkpoints import CleanStop, EpochStart
from headrace.log.errors import InvalidFile
from headrace.log.filesystem import DiskFileSystem
from headrace.testing.failing_filesystem import FailingFileSystem

FILES = DiskFileSystem()


def test_offsets_are_read_back_in_the_format_of_kafka(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.RECOVERY_POINT_NAME
    offsets = {("clicks", 1): 7, ("clicks", 0): 2**40, ("a.b-c_d", 12): 0}
    checkpoints.write_offsets(FILES, str(path), offsets)
    assert path.read_text() == "0\n3\na.b-c_d 12 0\nclicks 0 1099511627776\nclicks 1 7\n"
    assert checkpoints.read_offsets(FILES, str(path)) == offsets


def test_missing_file_is_empty(tmp_path: Path) -> None:
    assert checkpoints.read_offsets(FILES, str(tmp_path / "none")) == {}
    assert checkpoints.read_epochs(FILES, str(tmp_path / "none")) == []
    assert checkpoints.read_cleaner_offsets(FILES, str(tmp_path / "none")) == (0, 0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 -1\n",
        b"0\nx\n",
        b"\xff\n",
        b"0\n1\na b 1\n",
    ],
)
def test_damaged_offsets_are_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(content)
    with pytest.raises(InvalidFile):
        checkpoints.read_offsets(FILES, str(path))


def test_epochs_are_read_back_and_must_not_decrease(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.LEADER_EPOCH_NAME
    epochs = [EpochStart(epoch=0, start_offset=0), EpochStart(epoch=3, start_offset=10)]
    checkpoints.write_epochs(FILES, str(path), epochs)
    assert path.read_text() == "0\n2\n0 0\n3 10\n"
    assert checkpoints.read_epochs(FILES, str(path)) == epochs
    path.write_text("0\n2\n3 10\n0 20\n")
    with pytest.raises(InvalidFile):
        checkpoints.read_epochs(FILES, str(path))


def test_failed_write_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    files = FailingFileSystem()
    checkpoints.write_offsets(files, path, {("a", 0): 1})
    files.fail("write_whole")
    with pytest.raises(OSError, match="Input/output error"):
        checkpoints.write_offsets(files, path, {("a", 0): 2})
    assert checkpoints.read_offsets(files, path) == {("a", 0): 1}


def test_mark_of_a_clean_stop_is_good_for_one_start(tmp_path: Path) -> None:
    logs = {
        ("t", 0): CleanStop(start_offset=3, end_offset=9, segment_bytes={0: 100, 5: 7}),
        ("t-1", 12): CleanStop(start_offset=0, end_offset=0, segment_bytes={0: 0}),
    }
    assert checkpoints.take_clean_shutdown_mark(FILES, str(tmp_path)) is None
    checkpoints.mark_clean_shutdown(FILES, str(tmp_path), logs)
    assert checkpoints.take_clean_shutdown_mark(FILES, str(tmp_path)) == logs
    assert checkpoints.take_clean_shutdown_mark(FILES, str(tmp_path)) is None


@pytest.mark.parametrize("content", [b"", b"rubbish", b"[]", b"7", b'{"version": 0, "logs": [["t", 0]]}'])
def test_damaged_mark_of_a_clean_stop_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / checkpoints.CLEAN_SHUTDOWN_NAME).write_bytes(content)
    with pytest.raises(InvalidFile, match="damaged"):
        checkpoints.take_clean_shutdown_mark(FILES, str(tmp_path))
    assert checkpoints.take_clean_shutdown_mark(FILES, str(tmp_path)) is None


def test_mark_with_a_changed_number_is_damaged(tmp_path: Path) -> None:
    stop = CleanStop(start_offset=0, end_offset=163, segment_bytes={0: 100})
    checkpoints.mark_clean_shutdown(FILES, str(tmp_path), {("t", 0): stop})
    path = tmp_path / checkpoints.CLEAN_SHUTDOWN_NAME
    path.write_bytes(path.read_bytes().replace(b"163", b"63"))
    with pytest.raises(InvalidFile, match="checksum"):
        checkpoints.take_clean_shutdown_mark(FILES, str(tmp_path))


def test_mark_of_an_older_version_has_no_logs(tmp_path: Path) -> None:
    (tmp_path / checkpoints.CLEAN_SHUTDOWN_NAME).write_bytes(b'{"version":0}')
    assert checkpoints.take_clean_shutdown_mark(FILES, str(tmp_path)) == {}


def test_lost_offsets_are_read_as_written(tmp_path: Path) -> None:
    path = str(tmp_path / checkpoints.LOST_OFFSETS_NAME)
    assert checkpoints.read_lost_offsets(FILES, path) == []
    checkpoints.write_lost_offsets(FILES, path, [(9, 12), (3, 4)])
    assert checkpoints.read_lost_offsets(FILES, path) == [(3, 4), (9, 12)]
