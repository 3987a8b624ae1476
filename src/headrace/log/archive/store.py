"""Where archived segments are stored: objects by name, behind a protocol of five methods, and a store that is a folder.

Names are relative and use `/`. An object is written once and read in pieces. A store raises `ObjectMissing`, or
`ArchiveUnreachable` for any other failure; callers retry later and never guess.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO, Protocol

from headrace.log.errors import ArchiveUnreachable, ObjectMissing
from headrace.log.filesystem import DiskFileSystem
from headrace.sync import sync_file

# An object that is still being written, in stores where that can be seen.
PARTIAL_SUFFIX = ".part"

_sync_directory = DiskFileSystem().sync_directory


class ArchiveStore(Protocol):
    @property
    def address(self) -> str:
        """The address of the archive, for messages."""

    def put_file(self, name: str, path: str) -> None:
        """Store a copy of a local file; an object of this name is replaced."""

    def put(self, name: str, content: bytes) -> None:
        """Store a small object; an object of this name is replaced."""

    def read(self, name: str, position: int = 0, count: int | None = None) -> bytes:
        """Bytes of an object, up to its end without a count; fewer only at its end."""

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects in this order; they may be missing."""

    def list(self, prefix: str) -> list[tuple[str, int]]:
        """Name and size of every object whose name starts with prefix, which ends in `/`."""


class FolderStore:
    """A folder, synced as carefully as the log itself. It must exist: if it is missing, the archive is unreachable."""

    def __init__(self, root: str) -> None:
        self.address = os.path.abspath(root)

    def put_file(self, name: str, path: str) -> None:
        what = f"copying {path} to {name}"
        with self._as_unreachable(what), open(path, "rb") as source, self._new_object(name) as target:
            shutil.copyfileobj(source, target, 1 << 20)

    def put(self, name: str, content: bytes) -> None:
        with self._as_unreachable(f"writing {name}"), self._new_object(name) as target:
            target.write(content)

    def read(self, name: str, position: int = 0, count: int | None = None) -> bytes:
        with self._as_unreachable(f"reading {name}"):
            try:
                with open(os.path.join(self.address, name), "rb") as file:
                    file.seek(position)
                    return file.read(-1 if count is None else count)
            except FileNotFoundError:
                self._check_root()
                raise ObjectMissing(f"{name} is not in the archive {self.address}") from None

    def delete(self, names: Sequence[str]) -> None:
        with self._as_unreachable("deleting"):
            self._check_root()
            for name in names:
                with suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.address, name))
            for folder in {os.path.dirname(name) for name in names}:
                self._tidy(folder)

    def list(self, prefix: str) -> list[tuple[str, int]]:
        with self._as_unreachable(f"listing {prefix}"):
            self._check_root()
            return [
                (os.path.relpath(path, self.address), os.path.getsize(path))
                for folder, _, files in os.walk(os.path.join(self.address, prefix))
                for path in (os.path.join(folder, file) for file in files)
            ]

    @contextmanager
    def _new_object(self, name: str) -> Iterator[BinaryIO]:
        """A file that gets its name once it is complete and on disk."""
        self._check_root()
        path = os.path.join(self.address, name)
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            os.makedirs(folder, exist_ok=True)
            _sync_directory(os.path.dirname(folder))
            _sync_directory(self.address)
        with open(path + PARTIAL_SUFFIX, "wb") as file:
            yield file
            file.flush()
            sync_file(file.fileno())
        os.replace(path + PARTIAL_SUFFIX, path)
        _sync_directory(folder)

    def _tidy(self, folder: str) -> None:
        """Sync a folder from which objects were removed; remove it, and its parents, if they are empty."""
        path = os.path.join(self.address, folder)
        with suppress(FileNotFoundError):
            _sync_directory(path)
        while folder:
            with suppress(OSError):  # not empty, or removed already
                os.rmdir(os.path.join(self.address, folder))
            folder = os.path.dirname(folder)

    def _check_root(self) -> None:
        if not os.path.isdir(self.address):
            raise ArchiveUnreachable(
                f"the archive folder {self.address} is missing", hint="create it, or mount its file system"
            )

    @contextmanager
    def _as_unreachable(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise ArchiveUnreachable(
                f"{what} in the archive {self.address} failed: {error}",
                hint="check the disk of the archive; the operation is retried",
            ) from error
