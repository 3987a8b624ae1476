"""Files by pattern, and by inode after they were renamed."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from headrace.edges.files.marks import Identity

_COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00")
"""The first bytes of gzip, zstd, bzip2 and xz."""


class Found:
    """A regular file at a path; symbolic links are followed."""

    __slots__ = ("identity", "path", "size")

    def __init__(self, path: str, status: os.stat_result) -> None:
        self.path = path
        self.identity = Identity.of(status)
        self.size = status.st_size


def find(patterns: Sequence[str], on_problem: Callable[[str, OSError], None]) -> Iterator[Found]:
    """Each file once, although it may have several paths."""
    seen: set[Identity] = set()
    for pattern in patterns:
        _check_folder(pattern, on_problem)
        for path in sorted(glob.iglob(pattern, recursive=True, include_hidden=False)):
            try:
                status = os.stat(path)
            except FileNotFoundError:  # a link to nothing, or it was deleted this moment
                continue
            except OSError as error:
                on_problem(path, error)
                continue
            if stat.S_ISREG(status.st_mode) and Identity.of(status) not in seen:
                seen.add(Identity.of(status))
                yield Found(path, status)


def _check_folder(pattern: str, on_problem: Callable[[str, OSError], None]) -> None:
    """glob skips a folder that can't be read without an error."""
    folder = Path(pattern).parent
    while glob.has_magic(str(folder)):
        folder = folder.parent
    try:
        os.scandir(folder).close()
    except FileNotFoundError:  # it may come
        pass
    except OSError as error:
        on_problem(str(folder), error)


def open_file(path: str, identity: Identity) -> int | None:
    """A descriptor; None if the path leads to another file meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    if Identity.of(os.fstat(descriptor)) == identity:
        return descriptor
    os.close(descriptor)
    return None


def find_renamed(path: str, identity: Identity) -> str | None:
    """Where in the same folder the file is now."""
    folder = os.path.dirname(os.path.realpath(path)) or "."
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_candidate = entry.inode() == identity.inode and not entry.is_symlink()
                if is_candidate and Identity.of(entry.stat()) == identity:
                    return entry.path
    except OSError:
        return None
    return None


def is_compressed(descriptor: int) -> bool:
    return os.pread(descriptor, 6, 0).startswith(_COMPRESSED)


def start_of_last_line(descriptor: int, size: int) -> int:
    """The end of the file, or the start of its last line if that has no end yet."""
    position = size
    while position > 0:
        piece_start = max(position - 65_536, 0)
        piece = os.pread(descriptor, position - piece_start, piece_start)
        if (found := piece.rfind(b"\n")) >= 0:
            return piece_start + found + 1
        position = piece_start
    return 0
