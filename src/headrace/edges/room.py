"""Waiting for room in an intake, in threads and in event loops."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Room:
    """Announces that an intake which had no room has some again."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._callbacks: list[Callable[[], None]] = []
        self._is_missed = False
        self._announced = 0

    def miss(self) -> None:
        """Somebody found no room."""
        with self._changed:
            self._is_missed = True

    def announce(self) -> None:
        """There is room; cheap if nobody has missed it."""
        if not self._is_missed:
            return
        with self._changed:
            self._is_missed = False
            self._announced += 1
            self._changed.notify_all()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def wait(self, timeout_s: float) -> bool:
        """Until room is announced; whether it was. Call it after an offer that found none."""
        with self._changed:
            if not self._is_missed:
                return True
            before = self._announced
            return self._changed.wait_for(lambda: self._announced != before, timeout_s)

    def call_once(self, callback: Callable[[], None]) -> None:
        """Call the function as soon as there is room, once. It may run in another thread, and must be quick."""
        with self._changed:
            if self._is_missed:
                self._callbacks.append(callback)
                return
        callback()
