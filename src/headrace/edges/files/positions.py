"""The positions of an edge on disk: up to where each file is acknowledged, written after the acknowledgement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.edges.errors import BadEdge
from headrace.edges.files.marks import Identity, Mark
from headrace.files import replace_text
from headrace.process_lock import ProcessLock

_FILE = "positions.json"
_LOCK = "positions.lock"


class Position(Struct, frozen=True, kw_only=True):
    path: str
    """where the file was at last"""
    name: str
    """where it was first: in the headers of its events"""
    identity: Identity
    mark: Mark
    is_past: bool = False
    """It was truncated: only a copy of it has what was in front of the mark."""


class Positions:
    """One process at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE
        self._lock = ProcessLock(folder / _LOCK)
        if not self._lock.take():
            raise BadEdge(
                f"the positions in {folder} are used by another process",
                hint="each edge needs positions of its own: set another --name",
            )
        self._written: bytes | None = None

    def read(self) -> list[Position] | None:
        """None: this edge has never run."""
        try:
            self._written = self._path.read_bytes()
            return msgspec.json.decode(self._written, type=list[Position])
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise BadEdge(
                f"the positions in {self._path} are damaged: {error}",
                hint="delete the file: the edge then starts at the end of all files, or at the beginning with "
                "--from-beginning",
            ) from error

    def write(self, positions: Sequence[Position]) -> None:
        """Durable, if they have changed."""
        text = msgspec.json.encode(positions)
        if text != self._written:
            replace_text(self._path, text.decode(), durable=True)
            self._written = text

    def close(self) -> None:
        self._lock.release()
