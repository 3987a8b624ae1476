"""An archive with failures that a test chooses: errors, a power failure together with the disk, corrupt bytes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Literal, get_args

from msgspec import Struct, field

from headrace.log.archive.store import ArchiveStore
from headrace.log.errors import ArchiveUnreachable
from headrace.testing.failing_filesystem import FailingFileSystem, Failure, PowerLost

ArchiveOperation = Literal["*", "delete", "list", "put", "read"]


class FailingArchive(Struct, kw_only=True):
    """Wraps a real store. An operation that does not fail is passed to the store.

    A `delete` counts once for each object.
    """

    store: ArchiveStore
    power: FailingFileSystem = field(default_factory=FailingFileSystem)
    """Its `lose_power_at` also applies to the archive. A put that loses power leaves half of the object."""
    failures: list[Failure] = field(default_factory=list)
    flipped: list[str] = field(default_factory=list)
    """Patterns of objects that are stored with a flipped bit."""
    operations: list[tuple[str, str]] = field(default_factory=list)

    def fail(
        self, operation: ArchiveOperation, pattern: str = "*", *, times: int | None = 1, skip: int = 0
    ) -> Failure:
        assert operation in get_args(ArchiveOperation), f"unknown operation {operation!r}"
        failure = Failure(operation=operation, path_pattern=pattern, times=times, skip=skip)
        self.failures.append(failure)
        return failure

    def heal(self) -> None:
        self.failures.clear()

    @property
    def address(self) -> str:
        return self.store.address

    def put_file(self, name: str, path: str) -> None:
        with open(path, "rb") as file:
            self.put(name, file.read())

    def put(self, name: str, content: bytes) -> None:
        self._note("put", name)
        try:
            self.power.happens("put", name)
        except PowerLost:
            self.store.put(name, content[: len(content) // 2])
            raise
        if content and any(fnmatch(name, pattern) for pattern in self.flipped):
            content = bytes((content[0] ^ 1,)) + content[1:]
        self.store.put(name, content)

    def read(self, name: str, position: int = 0, count: int | None = None) -> bytes:
        self._note("read", name)
        return self.store.read(name, position, count)

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self._note("delete", name)
            self.power.happens("delete", name)
            self.store.delete([name])

    # After the methods that need `list` as a type.
    def list(self, prefix: str) -> list[tuple[str, int]]:
        self._note("list", prefix)
        return self.store.list(prefix)

    def _note(self, operation: str, name: str) -> None:
        self.operations.append((operation, name))
        for failure in self.failures:
            if failure.strikes(operation, name):
                raise ArchiveUnreachable(f"{operation} of {name} failed: {os.strerror(failure.error_number)}")
