"""Lines with their offsets, out of the pieces of a file, with a bound on their length."""

from __future__ import annotations

Line = tuple[int, bytes]
"""The offset of its first byte, and its bytes."""


class LineSplitter:
    """The end of a line, `\\n` or `\\r\\n`, is not part of it. Too long lines are cut or skipped, and counted."""

    def __init__(self, offset: int, *, line_bytes_max: int, is_cut: bool) -> None:
        self.start = offset
        """Offset of the line that has not ended."""
        self._line_bytes_max = line_bytes_max
        self._is_cut = is_cut
        self._rest = b""
        self._discarded_bytes = 0
        """of a line that is too long and has not ended"""
        self.too_long = 0

    @property
    def has_rest(self) -> bool:
        """Whether there are bytes of a line that has not ended and is no event yet."""
        return bool(self._rest)

    def feed(self, data: bytes) -> list[Line]:
        """The lines that end in this piece."""
        pieces = (self._rest + data).split(b"\n")
        rest = pieces.pop()
        offset = self.start
        if self._discarded_bytes and pieces:
            offset += self._discarded_bytes + len(pieces[0]) + 1
            del pieces[0]
            self._discarded_bytes = 0
        found: list[Line] = []
        bound = self._line_bytes_max
        for piece in pieces:
            line = piece[:-1] if piece.endswith(b"\r") else piece
            if len(line) <= bound:
                found.append((offset, line))
            else:
                self._cut(offset, line, found)
            offset += len(piece) + 1
        self.start = offset
        if self._discarded_bytes:
            self._discarded_bytes += len(rest)
            rest = b""
        elif len(rest) > bound + 1:  # a \r may be the last byte
            self._cut(offset, rest, found)
            self._discarded_bytes, rest = len(rest), b""
        self._rest = rest
        return found

    def finish(self) -> list[Line]:
        """The last line, if it has no end."""
        found: list[Line] = []
        if self._rest:
            line = self._rest.removesuffix(b"\r")
            if len(line) <= self._line_bytes_max:
                found.append((self.start, line))
            else:
                self._cut(self.start, line, found)
        self.start += len(self._rest) + self._discarded_bytes
        self._rest, self._discarded_bytes = b"", 0
        return found

    def _cut(self, offset: int, line: bytes, found: list[Line]) -> None:
        self.too_long += 1
        if self._is_cut:
            found.append((offset, line[: self._line_bytes_max]))
