"""A disk that holds so many bytes and not one more."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from headrace.log.filesystem import Buffer, DiskFileSystem


class SmallDisk(DiskFileSystem):
    """Counts the files below a folder, and rejects what would exceed `capacity_bytes`. Empty files cost nothing."""

    def __init__(self, folder: Path, capacity_bytes: int) -> None:
        self._folder = folder
        self.capacity_bytes = capacity_bytes
        self.rejected = 0

    @property
    def used_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._folder.rglob("*") if path.is_file())

    def fill(self) -> None:
        """Take away all room that is left, as other programs do."""
        self.capacity_bytes = self.used_bytes

    def write(self, fd: int, parts: Sequence[Buffer], position: int) -> None:
        self._require(position + sum(len(part) for part in parts) - os.fstat(fd).st_size)
        super().write(fd, parts, position)

    def write_whole(self, path: str, content: bytes, *, durable: bool = True) -> None:
        self._require(len(content))
        super().write_whole(path, content, durable=durable)

    def _require(self, added_bytes: int) -> None:
        if added_bytes > 0 and self.used_bytes + added_bytes > self.capacity_bytes:
            self.rejected += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
