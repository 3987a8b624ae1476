"""The disk, as the log uses it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.log.errors import WouldBlock
from headrace.log.filesystem import DiskFileSystem, OpenFile

FILES = DiskFileSystem()


def test_short_writes_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short_pwritev(fd: int, parts: tuple[bytes, ...], position: int) -> int:
        return os.pwrite(fd, b"".join(parts)[:3], position)

    fd = FILES.create(str(tmp_path / "file"))
    monkeypatch.setattr(os, "pwritev", short_pwritev)
    FILES.write(fd, (b"ab", memoryview(b"cdefgh")), 2)
    assert FILES.read(fd, 100, 0) == b"\0\0abcdefgh"
    FILES.close(fd)


def test_opening_a_missing_file_does_not_make_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FILES.open(str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []


def test_reading_without_waiting_gives_what_is_in_memory_or_says_that_it_would_wait(tmp_path: Path) -> None:
    fd = FILES.create(str(tmp_path / "file"))
    FILES.write(fd, (b"x" * 10_000,), 0)
    try:
        found = FILES.read_nowait(fd, 20_000, 5000)
    except WouldBlock:
        pytest.skip("this file system cannot read without waiting")
    assert bytes(found) == b"x" * 5000
    FILES.close(fd)


def test_file_stays_open_for_as_long_as_somebody_holds_it(tmp_path: Path) -> None:
    file = OpenFile(FILES, str(tmp_path / "file"), FILES.create(str(tmp_path / "file")))
    held, fd = file, file.fd
    del file
    os.fstat(fd)
    del held
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_whole_files_are_replaced_and_leave_no_rest(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    FILES.write_whole(path, b"a long content")
    FILES.write_whole(path, b"short")
    assert FILES.read_whole(path) == b"short"
    assert os.listdir(tmp_path) == ["file"]
