"""A file system with failures that a test chooses. It counts reads, and can lose power.

It wraps a real file system. An operation that does not fail is passed to it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Literal, get_args

from msgspec import Struct, field

from headrace.log.filesystem import Buffer, DiskFileSystem, FileSystem

FileOperation = Literal[
    "*",
    "create",
    "make_directory",
    "read",
    "remove",
    "remove_directory",
    "rename",
    "sync",
    "sync_directory",
    "truncate",
    "write",
    "write_whole",
]


class PowerLost(BaseException):
    """All operations after this one fail too. It is no Exception, so that no handler treats it as a failed write."""


class Failure(Struct, kw_only=True):
    """Fail operations by name and path. `times` counts down; None fails forever."""

    operation: str
    path_pattern: str = "*"
    error_number: int = errno.EIO
    times: int | None = 1
    skip: int = 0
    """How many matching operations succeed first."""
    bytes_written_first: int = 0
    """A failing write writes this many bytes before it fails."""
    happened: int = 0

    def strikes(self, operation: str, path: str) -> bool:
        if self.operation not in ("*", operation) or not fnmatch(path, self.path_pattern):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times is not None and self.happened >= self.times:
            return False
        self.happened += 1
        return True

    def error(self, path: str) -> OSError:
        return OSError(self.error_number, os.strerror(self.error_number), path)


class _Durable(Struct):
    """The part of a file that survives a power failure."""

    size_bytes: int


class FailingFileSystem(Struct, kw_only=True):
    """`fail(...)` adds a failure; `lose_power_at(n)` fails the n-th changing operation and all later ones."""

    files: FileSystem = field(default_factory=DiskFileSystem)
    failures: list[Failure] = field(default_factory=list)
    operations: list[tuple[str, str]] = field(default_factory=list)
    """Every operation that changes the disk, with its path."""
    reads: list[tuple[str, int, int]] = field(default_factory=list)
    """(path, position, count) of every read."""
    _paths: dict[int, str] = field(default_factory=dict)
    _durable: dict[str, _Durable] = field(default_factory=dict)
    _power_left: int | None = None
    _is_dark: bool = False

    # --- for tests ---

    def fail(
        self,
        operation: FileOperation,
        path_pattern: str = "*",
        *,
        error_number: int = errno.EIO,
        times: int | None = 1,
        skip: int = 0,
        bytes_written_first: int = 0,
    ) -> Failure:
        assert operation in get_args(FileOperation), f"unknown operation {operation!r}"
        failure = Failure(
            operation=operation,
            path_pattern=path_pattern,
            error_number=error_number,
            times=times,
            skip=skip,
            bytes_written_first=bytes_written_first,
        )
        self.failures.append(failure)
        return failure

    def heal(self) -> None:
        self.failures.clear()

    def lose_power_at(self, operation_number: int) -> None:
        """Count from now; 0 is the next operation that would change the disk."""
        self._power_left = operation_number

    def drop_unsynced(self) -> None:
        """Truncate each file to its size at the last fsync, as a power failure may do. File names survive."""
        for path, durable in self._durable.items():
            if os.path.exists(path) and os.path.getsize(path) > durable.size_bytes:
                os.truncate(path, durable.size_bytes)

    def bytes_read(self, path_pattern: str = "*") -> int:
        return sum(count for path, _, count in self.reads if fnmatch(path, path_pattern))

    def happens(self, operation: str, path: str) -> None:
        """Apply failures and power loss to an operation outside of this file system, before it changes anything."""
        self._before(operation, path)

    # --- for the log ---

    def _before(self, operation: str, path: str) -> None:
        self._check_power(operation, path)
        for failure in self.failures:
            if failure.strikes(operation, path):
                raise failure.error(path)

    def _check_power(self, operation: str, path: str) -> None:
        if self._is_dark or self._power_left == 0:
            self._is_dark = True
            raise PowerLost(f"before {operation} of {path}")
        if self._power_left is not None:
            self._power_left -= 1
        self.operations.append((operation, path))

    def create(self, path: str) -> int:
        is_new = not os.path.exists(path)
        if is_new:
            self._before("create", path)
        return self._opened(path, self.files.create(path), 0 if is_new else self.files.size(path))

    def open(self, path: str) -> int:
        return self._opened(path, self.files.open(path), self.files.size(path))

    def open_directory(self, path: str) -> int:
        fd = self.files.open_directory(path)
        self._paths[fd] = path
        return fd

    def _opened(self, path: str, fd: int, durable_bytes: int) -> int:
        self._paths[fd] = path
        self._durable.setdefault(path, _Durable(durable_bytes))
        return fd

    def close(self, fd: int) -> None:
        self._paths.pop(fd, None)
        self.files.close(fd)

    def write(self, fd: int, parts: Sequence[Buffer], position: int) -> None:
        path = self._paths[fd]
        self._check_power("write", path)
        for failure in self.failures:
            if failure.strikes("write", path):
                part = b"".join(parts)[: failure.bytes_written_first]
                if part:
                    self.files.write(fd, (part,), position)
                raise failure.error(path)
        self.files.write(fd, parts, position)

    def read(self, fd: int, count: int, position: int) -> bytes:
        self._fail_read(fd, count, position)
        return self.files.read(fd, count, position)

    def read_nowait(self, fd: int, count: int, position: int) -> Buffer:
        self._fail_read(fd, count, position)
        return self.files.read_nowait(fd, count, position)

    def _fail_read(self, fd: int, count: int, position: int) -> None:
        path = self._paths[fd]
        self.reads.append((path, position, count))
        for failure in self.failures:
            if failure.strikes("read", path):
                raise failure.error(path)

    def truncate(self, fd: int, size_bytes: int) -> None:
        path = self._paths[fd]
        self._before("truncate", path)
        self.files.truncate(fd, size_bytes)
        if path in self._durable:
            self._durable[path].size_bytes = min(self._durable[path].size_bytes, size_bytes)

    def sync(self, fd: int) -> None:
        path = self._paths[fd]
        self._before("sync", path)
        self.files.sync(fd)
        self._durable.setdefault(path, _Durable(0)).size_bytes = self.files.size(path)

    def sync_names(self, fd: int) -> None:
        self._before("sync_directory", self._paths[fd])
        self.files.sync_names(fd)

    def sync_directory(self, path: str) -> None:
        self._before("sync_directory", path)
        self.files.sync_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._before("rename", source)
        self.files.rename(source, target)
        for fd, path in self._paths.items():
            if path == source:
                self._paths[fd] = target
        if source in self._durable:
            self._durable[target] = self._durable.pop(source)

    def remove(self, path: str) -> None:
        self._before("remove", path)
        self.files.remove(path)
        self._durable.pop(path, None)

    def remove_directory(self, path: str) -> None:
        self._before("remove_directory", path)
        self.files.remove_directory(path)

    def make_directory(self, path: str) -> None:
        if not os.path.isdir(path):
            self._before("make_directory", path)
            self.files.make_directory(path)

    def list_directory(self, path: str) -> list[tuple[str, int]]:
        return self.files.list_directory(path)

    def size(self, path: str) -> int:
        return self.files.size(path)

    def modified_ms(self, path: str) -> int:
        return self.files.modified_ms(path)

    def read_whole(self, path: str) -> bytes:
        content = self.files.read_whole(path)
        self.reads.append((path, 0, len(content)))
        return content

    def write_whole(self, path: str, content: bytes, *, durable: bool = True) -> None:
        self._before("write_whole", path)
        self.files.write_whole(path, content, durable=durable)
