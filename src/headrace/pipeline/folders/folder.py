"""What jobs need of a folder, wherever it is. `opened.open_folder` returns one for an address.

Names are relative and have `/` between folders and files. Contents are small: offsets, statuses, plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from headrace.errors import HeadraceError


class FolderUnavailable(HeadraceError):
    """The file system of a folder cannot be reached now, or rejects the request."""


class Lock(Protocol):
    """Held by at most one process at a time."""

    def take(self) -> bool:
        """Whether this process holds the lock now; False if another one does."""

    def release(self) -> None: ...

    def is_taken(self) -> bool:
        """Whether any process holds the lock."""

    def holder(self) -> str:
        """The process that holds the lock, for people; empty if that is unknown."""

    def loss(self) -> str:
        """Why this process no longer holds the lock that it took; empty as long as it does."""


class Folder(Protocol):
    """Which kind of folder it is: `path` is None for all that are not on this machine."""

    @property
    def address(self) -> str:
        """As Spark takes it."""

    @property
    def name(self) -> str: ...

    @property
    def path(self) -> Path | None: ...

    def at(self, name: str) -> Folder:
        """A folder in this one."""

    def read(self, name: str) -> bytes:
        """The content of a file. Raises FileNotFoundError."""

    def write(self, name: str, content: bytes) -> None:
        """Replace a file: readers see the old content or the new one."""

    def create(self, name: str, content: bytes) -> bool:
        """Write a file, unless there is one: of several processes that try, one succeeds."""

    def names(self, name: str = "") -> list[str]:
        """The names of the files and folders in a folder; none if there is no folder."""

    def exists(self, name: str = "") -> bool: ...

    def delete(self, name: str) -> None:
        """Delete a file, or a folder with everything in it, if there is one."""

    def clear(self, marker: str, *, keep: str = "") -> None:
        """Delete everything but `keep`. If that is interrupted, the file `marker` is already deleted."""

    def fill(self, files: Mapping[str, str], marker: str) -> None:
        """Write these files into the empty folder. If that is interrupted, the file `marker` is missing."""

    def remove_leftovers(self) -> None:
        """Delete what an interrupted `clear` or `fill` has left beside the folder."""

    def hidden_files(self) -> Iterator[str]:
        """The files whose names begin with a dot: programs write them before they rename them."""

    def lock(self, name: str) -> Lock: ...


def write_json(folder: Folder, name: str, content: msgspec.Struct) -> None:
    """Replace a file by this value, in lines for people."""
    folder.write(name, msgspec.json.format(msgspec.json.encode(content), indent=1))
