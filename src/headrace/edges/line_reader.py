"""Lines of a stream that arrives in pieces, with a bound on their length."""

from __future__ import annotations


class LineReader:
    """The end of a line, `\\n` or `\\r\\n`, is not part of it. A line that is too long is skipped and counted."""

    def __init__(self, line_bytes_max: int) -> None:
        self._line_bytes_max = line_bytes_max
        self._rest = b""
        self._is_skipping = False
        self.too_long = 0

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that end in this piece."""
        lines = (self._rest + data).split(b"\n")
        rest = lines.pop()
        if self._is_skipping and lines:
            del lines[0]
            self._is_skipping = False
        if self._is_skipping or len(rest) > self._line_bytes_max + 1:  # a \r may follow
            self.too_long += not self._is_skipping
            self._is_skipping, rest = True, b""
        self._rest = rest
        return self._checked(lines)

    def finish(self) -> list[bytes]:
        """The last line, if the stream ends without the end of one."""
        lines, self._rest = [self._rest] if self._rest else [], b""
        return self._checked(lines)

    def _checked(self, lines: list[bytes]) -> list[bytes]:
        found = [line[:-1] if line.endswith(b"\r") else line for line in lines]
        bound = self._line_bytes_max
        if any(len(line) > bound for line in found):
            self.too_long += sum(len(line) > bound for line in found)
            found = [line for line in found if len(line) <= bound]
        return found
