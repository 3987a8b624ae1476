"""The disk, as the log uses it."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from headrace import sync
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


def test_opening_a_missing_file_does_not_create_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FILES.open(str(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []


def test_reading_without_waiting_returns_bytes_in_memory_or_raises_would_block(tmp_path: Path) -> None:
    fd = FILES.create(str(tmp_path / "file"))
    FILES.write(fd, (b"x" * 10_000,), 0)
    try:
        found = FILES.read_nowait(fd, 20_000, 5000)
    except WouldBlock:
        pytest.skip("this file system cannot read without waiting")
    assert bytes(found) == b"x" * 5000
    FILES.close(fd)


def test_file_stays_open_while_a_reference_exists(tmp_path: Path) -> None:
    file = OpenFile(FILES, str(tmp_path / "file"), FILES.create(str(tmp_path / "file")))
    held, fd = file, file.fd
    del file
    os.fstat(fd)
    del held
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_whole_files_are_replaced_without_leftovers(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    FILES.write_whole(path, b"a long content")
    FILES.write_whole(path, b"short")
    assert FILES.read_whole(path) == b"short"
    assert os.listdir(tmp_path) == ["file"]


F_FULLFSYNC = 51  # as macOS defines it


class MacOs:
    """The module as on macOS; records which file is synced how."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: OSError | None = None) -> None:
        self.calls: list[str] = []
        self._error = error
        self._fsync = os.fsync
        monkeypatch.setattr(sync, "FULL_SYNC", F_FULLFSYNC)
        monkeypatch.setattr(fcntl, "fcntl", self._control)
        monkeypatch.setattr(os, "fsync", self._sync)
        monkeypatch.delattr(os, "fdatasync")

    def _control(self, fd: int, command: int) -> int:
        assert command == F_FULLFSYNC
        self.calls.append("F_FULLFSYNC")
        if self._error is not None:
            raise self._error
        self._fsync(fd)
        return 0

    def _sync(self, fd: int) -> None:
        self.calls.append("fsync")
        self._fsync(fd)


def test_macos_syncs_to_the_drive_and_not_only_to_its_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    macos = MacOs(monkeypatch)
    fd = FILES.create(str(tmp_path / "file"))
    FILES.sync(fd)
    FILES.close(fd)
    FILES.sync_directory(str(tmp_path))
    FILES.write_whole(str(tmp_path / "small"), b"content")
    assert macos.calls == ["F_FULLFSYNC"] * 4  # of the file, the folder, the small file and its folder


def test_macos_file_system_without_full_sync_falls_back_to_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    macos = MacOs(monkeypatch, OSError(errno.ENOTSUP, "not supported"))
    fd = FILES.create(str(tmp_path / "file"))
    FILES.sync(fd)
    FILES.close(fd)
    assert macos.calls == ["F_FULLFSYNC", "fsync"]


def test_failed_full_sync_is_never_retried_with_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    macos = MacOs(monkeypatch, OSError(errno.EIO, "broken"))
    fd = FILES.create(str(tmp_path / "file"))
    with pytest.raises(OSError, match="broken"):
        FILES.sync(fd)
    FILES.close(fd)
    assert macos.calls == ["F_FULLFSYNC"]
