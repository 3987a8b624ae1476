"""Where archived segments lie: objects by name, behind a protocol of five methods, and the one kind that is a folder.

Names are relative and use `/`. An object is written once and read in pieces. What a store raises is
`ArchiveUnreachable`, whatever the reason, or `ObjectMissing`; callers try again later and never guess.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from headrace.log.errors import ArchiveUnreachable, ObjectMissing

# An object that is still being written, in stores where that can be seen.
PARTIAL_SUFFIX = ".part"


class ArchiveStore(Protocol):
    @property
    def address(self) -> str:
        """What people call it."""

    def put_file(self, name: str, path: str) -> None:
        """Store a copy of a local file, in place of what bears the name."""

    def put(self, name: str, content: bytes) -> None:
        """Store a small object, in place of what bears the name."""

    def read(self, name: str, position: int = 0, count: int | None = None) -> bytes:
        """Bytes of an object, up to its end without a count; fewer only at its end."""

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects in this order; those that are not there are fine."""

    def list(self, prefix: str) -> list[tuple[str, int]]:
        """Name and size of every object whose name begins with prefix, which ends in `/`."""


class FolderStore:
    """A folder, synced as carefully as the log itself. It must exist: a missing one is an outage."""

    def __init__(self, root: str) -> None:
        self.address = os.path.abspath(root)

    def put_file(self, name: str, path: str) -> None:
        what = f"copying {path} to {name}"
        with self._told(what), open(path, "rb") as source, self._begun(name) as target:
            shutil.copyfileobj(source, target, 1 << 20)

    def put(self, name: str, content: bytes) -> None:
        with self._told(f"writing {name}"), self._begun(name) as target:
            target.write(content)

    def read(self, name: str, position: int = 0, count: int | None = None) -> bytes:
        with self._told(f"reading {name}"):
            try:
                with open(os.path.join(self.address, name), "rb") as file:
                    file.seek(position)
                    return file.read(-1 if count is None else count)
            except FileNotFoundError:
                self._check_root()
                raise ObjectMissing(f"{name} is not in the archive {self.address}") from None

    def delete(self, names: Sequence[str]) -> None:
        with self._told("deleting"):
            self._check_root()
            for name in names:
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.address, name))
            for folder in {os.path.dirname(name) for name in names}:
                self._tidy(folder)

    def list(self, prefix: str) -> list[tuple[str, int]]:
        with self._told(f"listing {prefix}"):
            self._check_root()
            return [
                (os.path.relpath(path, self.address), os.path.getsize(path))
                for folder, _, files in os.walk(os.path.join(self.address, prefix))
                for path in (os.path.join(folder, file) for file in files)
            ]

    @contextmanager
    def _begun(self, name: str) -> Iterator[_Writer]:
        """A file that gets its name when it is whole and on disk."""
        self._check_root()
        path = os.path.join(self.address, name)
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            os.makedirs(folder, exist_ok=True)
            _sync_folder(os.path.dirname(folder))
            _sync_folder(self.address)
        with open(path + PARTIAL_SUFFIX, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + PARTIAL_SUFFIX, path)
        _sync_folder(folder)

    def _tidy(self, folder: str) -> None:
        """Sync a folder that objects were removed from; an empty one goes, and so does an empty one around it."""
        path = os.path.join(self.address, folder)
        with suppress(FileNotFoundError):
            _sync_folder(path)
        while folder:
            with suppress(OSError):  # not empty, or gone already
                os.rmdir(os.path.join(self.address, folder))
            folder = os.path.dirname(folder)

    def _check_root(self) -> None:
        if not os.path.isdir(self.address):
            raise ArchiveUnreachable(
                f"the archive folder {self.address} is not there", hint="make it, or mount what it is on"
            )

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ArchiveUnreachable(
                f"{what} in the archive {self.address} failed: {error}",
                hint="see to the disk it is on; it is tried again",
            ) from error


class _Writer(Protocol):
    def write(self, content: bytes, /) -> int: ...


def _sync_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
