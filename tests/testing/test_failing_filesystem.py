"""A file system that fails where a test wants it to: errors, short writes, lost power."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headrace.testing import FailingFileSystem, PowerLost


@pytest.fixture
def files() -> FailingFileSystem:
    return FailingFileSystem()


def test_operation_fails_as_often_as_wanted_and_only_for_matching_paths(
    files: FailingFileSystem, tmp_path: Path
) -> None:
    failure = files.fail("write_whole", "*.log", skip=1, times=2, error_number=errno.ENOSPC)
    other = str(tmp_path / "a.index")
    path = str(tmp_path / "a.log")
    files.write_whole(path, b"0")
    for _ in range(2):
        files.write_whole(other, b"x")
        with pytest.raises(OSError, match="No space left") as failed:
            files.write_whole(path, b"1")
        assert (failed.value.errno, failed.value.filename) == (errno.ENOSPC, path)
    files.write_whole(path, b"2")
    assert (failure.happened, files.read_whole(path)) == (2, b"2")


def test_healed_file_system_works_again(files: FailingFileSystem, tmp_path: Path) -> None:
    files.fail("*", times=None)
    with pytest.raises(OSError, match="Input/output error"):
        files.make_directory(str(tmp_path / "a"))
    files.heal()
    files.make_directory(str(tmp_path / "a"))
    assert (tmp_path / "a").is_dir()


def test_failing_write_leaves_the_bytes_that_were_written_first(
    files: FailingFileSystem, tmp_path: Path
) -> None:
    fd = files.create(str(tmp_path / "a"))
    files.fail("write", bytes_written_first=3)
    with pytest.raises(OSError, match="Input/output error"):
        files.write(fd, [b"ab", b"cdef"], 0)
    assert (tmp_path / "a").read_bytes() == b"abc"
    files.close(fd)


def test_power_failure_lasts_and_drops_what_was_not_synced(files: FailingFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    fd = files.create(path)
    files.write(fd, [b"durable"], 0)
    files.sync(fd)
    files.lose_power_at(1)
    files.write(fd, [b" and not"], 7)
    for _ in range(2):
        with pytest.raises(PowerLost):
            files.sync(fd)
    files.drop_unsynced()
    assert files.read(fd, 100, 0) == b"durable"
    files.close(fd)


def test_renamed_file_keeps_its_durable_size(files: FailingFileSystem, tmp_path: Path) -> None:
    source, target = str(tmp_path / "a"), str(tmp_path / "b")
    fd = files.create(source)
    files.write(fd, [b"durable"], 0)
    files.sync(fd)
    files.rename(source, target)
    files.write(fd, [b"!"], 7)
    files.drop_unsynced()
    assert (tmp_path / "b").read_bytes() == b"durable"
    assert files.operations[-1] == ("write", target)
    files.close(fd)


def test_reads_are_counted_by_path(files: FailingFileSystem, tmp_path: Path) -> None:
    path = str(tmp_path / "a.log")
    files.write_whole(path, b"0123456789")
    fd = files.open(path)
    files.read(fd, 4, 2)
    assert files.reads == [(path, 2, 4)]
    assert (files.bytes_read("*.log"), files.bytes_read("*.index")) == (4, 0)
    files.close(fd)


def test_unknown_operation_is_rejected(files: FailingFileSystem) -> None:
    with pytest.raises(AssertionError, match="unknown operation 'chmod'"):
        files.fail("chmod")  # type: ignore[arg-type]
