"""Several lines as one event, such as a stack trace: an event lasts until the first line of the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.edges.files.lines import Line


class Multiline:
    """Joins lines. Those in front of the first start are an event too. What is beyond the bound is cut and counted."""

    def __init__(self, is_start: Callable[[bytes], object], *, bytes_max: int) -> None:
        self._is_start = is_start
        self._bytes_max = bytes_max
        self._offset = -1
        self._lines: list[bytes] = []
        self._size = 0
        self._is_cut = False
        self.cut = 0

    @property
    def start(self) -> int | None:
        """Offset of the event that may continue."""
        return self._offset if self._lines else None

    def add(self, lines: Iterable[Line]) -> list[Line]:
        """The events that have ended."""
        found: list[Line] = []
        for offset, line in lines:
            if not self._lines or self._is_start(line):
                found += self.finish()
                self._offset, self._lines, self._size = offset, [line], len(line)
            elif self._size + 1 + len(line) <= self._bytes_max and not self._is_cut:
                self._lines.append(line)
                self._size += 1 + len(line)
            else:
                self._is_cut = True
        return found

    def finish(self) -> list[Line]:
        """The last event, if there is one."""
        if not self._lines:
            return []
        self.cut += self._is_cut
        event = self._offset, b"\n".join(self._lines)
        self._lines, self._is_cut = [], False
        return [event]
