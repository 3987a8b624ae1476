"""An archive that fails when a test says so, shares a power supply with the disk, and gives back changed bytes."""

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
    """Stands in front of a real store; what does not fail really happens.

    A `delete` counts once for each object.
    """

    store: ArchiveStore
    power: FailingFileSystem = field(default_factory=FailingFileSystem)
    """Where `lose_power_at` is said; a put that it strikes leaves half of the object."""
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

    # Below the others, which would otherwise take this name for the type.
    def list(self, prefix: str) -> list[tuple[str, int]]:
        self._note("list", prefix)
        return self.store.list(prefix)

    def _note(self, operation: str, name: str) -> None:
        self.operations.append((operation, name))
        for failure in self.failures:
            if failure.strikes(operation, name):
                raise ArchiveUnreachable(f"{operation} of {name} failed: {os.strerror(failure.error_number)}")
