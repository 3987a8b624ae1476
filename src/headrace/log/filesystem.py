"""The few operations that the log performs on a disk, behind one small protocol so that tests can make them fail.

Files are plain descriptors. Every write has a position, so that a later write overwrites what a failed one has left.
The content of the files is opaque here.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import Protocol

from headrace.log.errors import WouldBlock
from headrace.records.batch import Buffer as Buffer
from headrace.sync import sync_data, sync_directory, sync_file

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)


class FileSystem(Protocol):
    def create(self, path: str) -> int:
        """Open for reading and writing; created if it is missing."""

    def open(self, path: str) -> int:
        """Open for reading and writing; FileNotFoundError if it is missing."""

    def open_directory(self, path: str) -> int:
        """Open for `sync_names`."""

    def close(self, fd: int) -> None: ...

    def write(self, fd: int, parts: Sequence[Buffer], position: int) -> None:
        """Write all parts one after the other from a position; returns only when all is written."""

    def read(self, fd: int, count: int, position: int) -> bytes:
        """Up to count bytes; fewer only at the end of the file."""

    def read_nowait(self, fd: int, count: int, position: int) -> Buffer:
        """Like read but only from memory, and perhaps less; WouldBlock if nothing is in memory."""

    def truncate(self, fd: int, size_bytes: int) -> None: ...

    def sync(self, fd: int) -> None:
        """Data, and as much metadata as reading it back needs, on stable storage."""

    def sync_names(self, fd: int) -> None:
        """Names created, renamed or removed in this open directory, on stable storage."""

    def sync_directory(self, path: str) -> None:
        """Like `sync_names`, for a directory that is not open: this needs a descriptor."""

    def rename(self, source: str, target: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None: ...

    def make_directory(self, path: str) -> None:
        """Create it and its parents; it may exist."""

    def list_directory(self, path: str) -> list[tuple[str, int]]:
        """Name and size of every file in the directory."""

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def read_whole(self, path: str) -> bytes:
        """The content of a small file; FileNotFoundError if it is missing."""

    def write_whole(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """Replace a small file atomically: after a crash it has either the old content or the new."""


class DiskFileSystem:
    """The disk: one system call per method where possible."""

    def create(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def open(self, path: str) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def open_directory(self, path: str) -> int:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self, fd: int) -> None:
        os.close(fd)

    def write(self, fd: int, parts: Sequence[Buffer], position: int) -> None:
        written = os.pwritev(fd, parts, position)
        size = 0
        for part in parts:
            size += len(part)
        if written != size:
            self._write_rest(fd, b"".join(parts)[written:], position + written)

    def _write_rest(self, fd: int, rest: bytes, position: int) -> None:
        """A short write is legal and mostly means that the disk is nearly full: continue until it fails."""
        while rest:
            written = os.pwrite(fd, rest, position)
            if written == 0:
                raise OSError(errno.EIO, "the operating system wrote nothing and reported no error")
            rest = rest[written:]
            position += written

    def read(self, fd: int, count: int, position: int) -> bytes:
        found = os.pread(fd, count, position)
        if len(found) == count or not found:
            return found
        parts = [found]
        got = len(found)
        while got < count:
            more = os.pread(fd, count - got, position + got)
            if not more:
                break
            parts.append(more)
            got += len(more)
        return b"".join(parts)

    def read_nowait(self, fd: int, count: int, position: int) -> Buffer:
        if not _NOWAIT:
            raise WouldBlock
        buffer = bytearray(count)
        try:
            got = os.preadv(fd, (buffer,), position, _NOWAIT)
        except OSError as error:
            # A file system without support returns ENOTSUP: then every read of it uses a thread.
            if error.errno in (errno.EAGAIN, errno.ENOTSUP, errno.EINVAL):
                raise WouldBlock from None
            raise
        return buffer if got == count else memoryview(buffer)[:got]

    def truncate(self, fd: int, size_bytes: int) -> None:
        os.ftruncate(fd, size_bytes)

    def sync(self, fd: int) -> None:
        sync_data(fd)

    def sync_names(self, fd: int) -> None:
        sync_file(fd)

    def sync_directory(self, path: str) -> None:
        sync_directory(path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def list_directory(self, path: str) -> list[tuple[str, int]]:
        with os.scandir(path) as entries:
            return [(entry.name, entry.stat().st_size) for entry in entries if entry.is_file()]

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def read_whole(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def write_whole(self, path: str, content: bytes, *, durable: bool = True) -> None:
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            self._write_rest(fd, content, 0)
            if durable:
                sync_file(fd)
        except OSError:
            os.remove(temporary)  # a full disk needs the space
            raise
        finally:
            os.close(fd)
        os.replace(temporary, path)
        if durable:
            self.sync_directory(os.path.dirname(path))


class OpenFile:
    """A descriptor that is closed with its last reference.

    A reader in another thread keeps a reference, so that a segment can release the file at any time and the number is
    never reused during a read.
    """

    __slots__ = ("_files", "fd", "path")

    def __init__(self, files: FileSystem, path: str, fd: int) -> None:
        self._files = files
        self.path = path
        self.fd = fd

    def __del__(self) -> None:
        self._files.close(self.fd)
