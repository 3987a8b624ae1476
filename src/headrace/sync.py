"""Putting files on stable storage: for the log, and for the files of jobs."""

from __future__ import annotations

import errno
import fcntl
import os

# On macOS fsync leaves the data in the cache of the drive, and there is no fdatasync.
FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_NOT_SUPPORTED = (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY)


def sync_file(fd: int) -> None:
    """Put a file or a directory on stable storage."""
    if FULL_SYNC is None:
        os.fsync(fd)
        return
    try:
        fcntl.fcntl(fd, FULL_SYNC)
    except OSError as error:
        # Only a file system without support falls back: after a real failure, fsync could report success.
        if error.errno not in _NOT_SUPPORTED:
            raise
        os.fsync(fd)


def sync_data(fd: int) -> None:
    """Put the data of a file, and as much metadata as reading it requires, on stable storage."""
    if FULL_SYNC is None:
        os.fdatasync(fd)
    else:
        sync_file(fd)


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Put the names of the files of a directory on stable storage."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_file(fd)
    finally:
        os.close(fd)
