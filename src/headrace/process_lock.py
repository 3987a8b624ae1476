"""A file that one process holds: it says whether a job or a capture runs, and is released when the process dies."""

from __future__ import annotations

import fcntl
import time
from pathlib import Path
from typing import IO

LOOK_S = 0.001
"""A look at the lock holds it for less than this."""


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
        while not _locked(held, fcntl.LOCK_EX):
            # Only a holder excludes a shared lock. Without one, it was a look at the lock, which ends at once.
            if not _locked(held, fcntl.LOCK_SH):
                held.close()
                return False
            fcntl.flock(held, fcntl.LOCK_UN)
            time.sleep(LOOK_S)
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
                return not _locked(probe, fcntl.LOCK_SH)
        except FileNotFoundError:
            return False


def _locked(file: IO[str], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
