"""Files that are copies of a file that was followed: `copytruncate` of logrotate copies a log, then truncates it.

A copy whose path is followed too has lines that were read already, and the last ones that were not. While the original
is there in full, the copy waits; after that it is read from the position of the original. A file is a copy if its first
bytes are those of the other one, and also the bytes in front of the other one's position.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping

from headrace.edges.files.followed_file import FollowedFile
from headrace.edges.files.marks import Identity, Mark, fits, head_of, mark_at
from headrace.edges.files.positions import Position

PAST_MAX = 100
"""Truncated files that are remembered: a copy appears before its original is truncated."""


class Copies:
    def __init__(self) -> None:
        self._past: deque[Position] = deque(maxlen=PAST_MAX)
        self._waiting: dict[Identity, FollowedFile] = {}

    @property
    def past(self) -> Iterator[Position]:
        return iter(self._past)

    def remember(self, position: Position) -> None:
        """A file that was truncated, or whose inode has another file."""
        if position.mark.head:
            self._past.append(position)

    def is_waiting(self, identity: Identity, descriptor: int, files: Mapping[Identity, FollowedFile]) -> bool:
        """Whether the file is a copy of one that is there in full."""
        original = self._waiting.get(identity) or _original(descriptor, files)
        if original is None or files.get(original.identity) is not original:
            return False
        size = _size_of(original)
        is_there = size is not None and original.read_mark.offset <= size >= os.fstat(descriptor).st_size
        if is_there:
            self._waiting[identity] = original
        return is_there

    def start(self, identity: Identity, descriptor: int) -> Mark | None:
        """The position at which the original was left; None if the file is no copy."""
        original = self._waiting.pop(identity, None)
        size = os.fstat(descriptor).st_size
        if original is not None and original.read_mark.offset > size:
            # Lines that came after the copy was made were read from the original.
            return mark_at(descriptor, size)
        head = head_of(descriptor)
        marks = [each.mark for each in self._past if each.mark.head == head]
        if original is not None and original.read_mark.head == head:
            marks.append(original.read_mark)
        return max(
            (mark for mark in marks if fits(descriptor, mark)), key=lambda mark: mark.offset, default=None
        )


def _original(descriptor: int, files: Mapping[Identity, FollowedFile]) -> FollowedFile | None:
    head = head_of(descriptor)
    if head is None:
        return None
    same = [each for each in files.values() if each.read_mark.head == head]
    return next((each for each in same if fits(descriptor, each.read_mark)), None)


def _size_of(file: FollowedFile) -> int | None:
    """None if the file is gone."""
    try:
        status = os.stat(file.path) if file.descriptor is None else os.fstat(file.descriptor)
    except OSError:
        return None
    return status.st_size if Identity.of(status) == file.identity else None
