"""Which records of a partition are done, and what is committed so that a restart repeats as little as possible.

The committed offset is that of the first record that is not done: after a crash nothing is missing. Records behind it
may be done, because others go on while one is retried. The metadata of the commit names those that are not done, up to
an offset; a restart skips the others.

    committed offset 120, metadata "1:96:0,7"     120 and 127 are not done, and everything from 150 (0x96) on
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from itertools import islice

from msgspec import Struct

METADATA_CHARACTERS_MAX = 2_048
"""Brokers keep 4,096 bytes at most."""

OFFSETS_MAX = 500
"""That the metadata may name; what does not fit is delivered again after a restart, with the same id."""

_VERSION = "1"
Place = tuple[str, int]
"""Topic and partition."""


class Mark(Struct, frozen=True, kw_only=True):
    """What is committed for a partition."""

    offset: int
    """The first record that is not done."""
    metadata: str


class Resume(Struct, frozen=True, kw_only=True):
    """Where a restart continues: all before `end` is done but `pending`."""

    pending: frozenset[int] = frozenset()
    end: int = 0

    def is_done(self, offset: int) -> bool:
        return offset < self.end and offset not in self.pending


class PartitionProgress:
    def __init__(self, start: int, resume: Resume) -> None:
        self._next = start
        self._pending: dict[int, None] = {}
        self.resume = resume

    @property
    def pending(self) -> int:
        return len(self._pending)

    def is_done(self, offset: int) -> bool:
        """Whether an earlier process has delivered the record that was just read.

        A partition that goes back is that of a new topic of the same name: nothing is known of it.
        """
        if offset < self._next or offset >= self.resume.end:
            self.resume = Resume()
        return self.resume.is_done(offset)

    def read(self, offset: int) -> None:
        """A record was read, and is not done. Offsets come in ascending order."""
        self._pending[offset] = None
        self._next = offset + 1

    def skip(self, offset: int) -> None:
        """A record was read that needs nothing."""
        self._next = offset + 1

    def done(self, offset: int) -> None:
        self._pending.pop(offset, None)

    def mark(self) -> Mark:
        end = max(self._next, self.resume.end)
        # What an earlier process left behind the position is not read yet.
        old = sorted(each for each in self.resume.pending if each >= self._next)
        named = list(islice(self._pending, OFFSETS_MAX + 1)) + old
        if not named:
            return Mark(offset=end, metadata="")
        if len(named) > OFFSETS_MAX:
            named, end = named[:OFFSETS_MAX], named[OFFSETS_MAX]
        return _encoded(named, end)


class Progress:
    """Of all partitions of a target. One thread reads records, another one delivers them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[Place, PartitionProgress] = {}
        self._committed: dict[Place, Mark] = {}

    def start(self, place: Place, offset: int, metadata: str) -> None:
        with self._lock:
            self._partitions[place] = PartitionProgress(offset, decoded(offset, metadata))
            self._committed[place] = Mark(offset=offset, metadata=metadata)

    def is_done(self, place: Place, offset: int) -> bool:
        with self._lock:
            return self._partitions[place].is_done(offset)

    def read(self, place: Place, offset: int) -> None:
        with self._lock:
            self._partitions[place].read(offset)

    def skip(self, place: Place, offset: int) -> None:
        with self._lock:
            self._partitions[place].skip(offset)

    def done(self, place: Place, offset: int) -> None:
        """A record of a partition that was lost meanwhile is ignored."""
        with self._lock:
            if (found := self._partitions.get(place)) is not None:
                found.done(offset)

    def changed(self) -> dict[Place, Mark]:
        """What has changed since it was committed."""
        with self._lock:
            marks = {place: each.mark() for place, each in self._partitions.items()}
            return {place: mark for place, mark in marks.items() if self._committed[place] != mark}

    def committed(self, marks: Mapping[Place, Mark]) -> None:
        with self._lock:
            for place, mark in marks.items():
                if place in self._committed:
                    self._committed[place] = mark

    def forget(self, places: Iterable[Place]) -> None:
        with self._lock:
            for place in places:
                self._partitions.pop(place, None)
                self._committed.pop(place, None)


def _encoded(pending: list[int], end: int) -> Mark:
    """As many of the offsets as fit; the first one is the committed offset."""
    first = pending[0]
    texts, length, before = [], 0, first
    for offset in pending:
        text = format(offset - before, "x")
        length += len(text) + 1
        if length > METADATA_CHARACTERS_MAX - 32:
            end = offset
            break
        texts.append(text)
        before = offset
    return Mark(offset=first, metadata=f"{_VERSION}:{end:x}:{','.join(texts)}")


def decoded(offset: int, metadata: str) -> Resume:
    """The metadata of another program, or a damaged one, names nothing: then everything is delivered."""
    version, _, rest = metadata.partition(":")
    end_text, _, texts = rest.partition(":")
    if version != _VERSION or len(metadata) > METADATA_CHARACTERS_MAX:
        return Resume()
    try:
        end, pending, last = int(end_text, 16), [], offset
        for text in texts.split(","):
            last += int(text, 16)
            pending.append(last)
    except ValueError:
        return Resume()
    return Resume(pending=frozenset(pending), end=end)
