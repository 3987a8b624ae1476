"""Files on stable storage: fsync, and on macOS the command that also empties the cache of the drive."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from headrace import sync

F_FULLFSYNC = 51  # as macOS defines it


@pytest.mark.parametrize(
    ("full_sync", "error", "expected"),
    [
        (None, None, ["fsync"]),
        (F_FULLFSYNC, None, ["fcntl"]),
        (F_FULLFSYNC, errno.ENOTSUP, ["fcntl", "fsync"]),
        (F_FULLFSYNC, errno.EIO, ["fcntl", "failed"]),
    ],
    ids=["linux", "macos", "macos without support", "macos with a failing drive"],
)
def test_file_is_synced_by_the_strongest_command_and_a_failure_is_raised(
    full_sync: int | None,
    error: int | None,
    expected: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    def control(fd: int, command: int) -> int:
        assert command == F_FULLFSYNC
        calls.append("fcntl")
        if error is not None:
            raise OSError(error, os.strerror(error))
        return 0

    monkeypatch.setattr(sync, "FULL_SYNC", full_sync)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", lambda fd: calls.append("fsync"))
    with (tmp_path / "file").open("wb") as file:
        try:
            sync.sync_file(file.fileno())
        except OSError:
            calls.append("failed")
    assert calls == expected
