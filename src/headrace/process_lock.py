"""A file that one process holds: it says whether a job or a capture runs, and is released when the process dies."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO


class ProcessLock:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: IO[str] | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object holds the lock."""
        return self._held is not None

    def take(self) -> bool:
        """Whether this process holds the lock now; False if another one does."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        held = self._path.open("a")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            held.close()
            return False
        self._held = held
        return True

    def release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def is_taken(self) -> bool:
        """Whether any process holds the lock."""
        if self._held is not None:
            return True
        try:
            with self._path.open("a") as probe:
                fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False
