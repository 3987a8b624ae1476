"""What identifies a file and a position in it.

An inode is used again after its file was deleted, and a file is truncated and grows again. So a position has a mark:
what is in front of it. Before a position is used, the mark is compared with the file.
"""

from __future__ import annotations

import hashlib
import os
from typing import NamedTuple

from msgspec import Struct

MARK_BYTES = 1024
"""Compared at the beginning of a file and in front of a position: a few lines, with their times."""


class Identity(NamedTuple):
    device: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity:
        return cls(status.st_dev, status.st_ino)


class Mark(Struct, frozen=True, kw_only=True):
    """A position and what is in front of it."""

    offset: int
    head: str = ""
    """Digest of the first bytes; empty if the position is within them."""
    tail: str = ""
    """Digest of the bytes right before the position."""


BEGINNING = Mark(offset=0)


def mark_at(descriptor: int, offset: int) -> Mark | None:
    """None if the file has become shorter."""
    if offset == 0:
        return BEGINNING
    size = min(offset, MARK_BYTES)
    tail = os.pread(descriptor, size, offset - size)
    head = head_of(descriptor) if offset >= MARK_BYTES else ""
    if len(tail) < size or head is None:
        return None
    return Mark(offset=offset, head=head, tail=_digest(tail))


def head_of(descriptor: int) -> str | None:
    """Digest of the first bytes; None if the file has fewer."""
    data = os.pread(descriptor, MARK_BYTES, 0)
    return _digest(data) if len(data) == MARK_BYTES else None


def fits(descriptor: int, mark: Mark) -> bool:
    """Whether the file still has what was in front of the position."""
    return mark_at(descriptor, mark.offset) == mark


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
