"""One file: what was read of it, and what of that is acknowledged."""

from __future__ import annotations

import os
import threading
from collections import deque

from headrace.edges.event import Fate, Reason
from headrace.edges.files.lines import Line, LineSplitter
from headrace.edges.files.marks import Identity, Mark, mark_at
from headrace.edges.files.multiline import Multiline
from headrace.edges.files.positions import Position


class Batch:
    """Events that were handed over together. `mark` is the position behind them."""

    __slots__ = ("_left", "_lock", "mark")

    def __init__(self, count: int, mark: Mark) -> None:
        self._left = count
        self._lock = threading.Lock()
        self.mark = mark

    @property
    def is_settled(self) -> bool:
        return self._left == 0

    def on_fate(self, _number: int, fate: Fate, why: str) -> None:
        """Several threads report. An event that the end of the edge has dropped stays in the file for the next run."""
        if fate is not Fate.DROPPED or why != Reason.STOPPED:
            with self._lock:
                self._left -= 1


class FollowedFile:
    def __init__(
        self,
        path: str,
        identity: Identity,
        mark: Mark,
        *,
        name: str,
        splitter: LineSplitter,
        multiline: Multiline | None,
    ) -> None:
        self.path = path
        self.name = name
        self.identity = identity
        self.descriptor: int | None = None
        self.size = mark.offset
        """when it was looked at the last time"""
        self.read_offset = mark.offset
        self.committed = mark
        """All events in front of it are acknowledged."""
        self.read_mark = mark
        """behind the last events that were read"""
        self.changed_s: float | None = None
        """when it grew the last time"""
        self.is_gone = False
        """It can't be opened again."""
        self.is_at_path = True
        self._splitter = splitter
        self._multiline = multiline
        self._batches: deque[Batch] = deque()

    @property
    def must_stay_open(self) -> bool:
        return not self.is_at_path

    @property
    def too_long(self) -> int:
        return self._splitter.too_long + (self._multiline.cut if self._multiline else 0)

    @property
    def is_read(self) -> bool:
        """Whether all that was there at the last look is read."""
        return self.read_offset >= self.size

    @property
    def has_unfinished(self) -> bool:
        """Whether the end of the file is no event yet."""
        return self._splitter.has_rest or self.has_open_event

    @property
    def has_partial_line(self) -> bool:
        return self._splitter.has_rest

    @property
    def has_open_event(self) -> bool:
        return self._multiline is not None and self._multiline.start is not None

    @property
    def is_settled(self) -> bool:
        return not self._batches

    @property
    def position(self) -> Position:
        return Position(path=self.path, name=self.name, identity=self.identity, mark=self.committed)

    def read(self, bytes_max: int) -> list[Line]:
        """The next events. The descriptor is open."""
        assert self.descriptor is not None
        data = os.pread(self.descriptor, bytes_max, self.read_offset)
        if not data:
            self.size = min(self.size, self.read_offset)
            return []
        self.read_offset += len(data)
        self.size = max(self.size, self.read_offset)
        lines = self._splitter.feed(data)
        return lines if self._multiline is None else self._multiline.add(lines)

    def finish_event(self) -> list[Line]:
        """The event of several lines that no line has followed."""
        return [] if self._multiline is None else self._multiline.finish()

    def finish(self) -> list[Line]:
        """What is left at the end of the file, although it may have no end."""
        lines = self._splitter.finish()
        return lines if self._multiline is None else [*self._multiline.add(lines), *self._multiline.finish()]

    def begin_batch(self, count: int) -> Batch | None:
        """For the events that were read. None if the file is gone or truncated: their position has no use."""
        if self.descriptor is None:
            return None
        unfinished = self._multiline.start if self._multiline else None
        mark = mark_at(self.descriptor, self._splitter.start if unfinished is None else unfinished)
        if mark is None:
            return None
        self.read_mark = mark
        batch = Batch(count, mark)
        self._batches.append(batch)
        return batch

    def settle(self) -> None:
        """Move the position behind the events that are acknowledged, in order."""
        while self._batches and self._batches[0].is_settled:
            self.committed = self._batches.popleft().mark
