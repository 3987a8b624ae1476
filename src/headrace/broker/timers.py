"""Many timeouts with one timer of the event loop.

A heartbeat moves its member's deadline, which here is one assignment: the queue learns of it only when the old
deadline comes up. Time is the clock's monotonic one, so a jump of the wall clock expires nothing.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Generic, TypeVar

from headrace.clock import Clock

KeyT = TypeVar("KeyT")


class Timers(Generic[KeyT]):
    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, on_due: Callable[[KeyT], None]) -> None:
        self._loop = loop
        self._clock = clock
        self._on_due = on_due
        self._deadlines_ms: dict[KeyT, int] = {}
        # When the queue checks a key: at its deadline, or earlier if the deadline was moved since.
        self._queued_ms: dict[KeyT, int] = {}
        self._queue: list[tuple[int, int, KeyT]] = []
        self._sequence = itertools.count()  # keeps keys from being compared
        self._wake_up: asyncio.TimerHandle | None = None
        self._wake_up_ms = 0

    def __len__(self) -> int:
        return len(self._deadlines_ms)

    def __contains__(self, key: KeyT) -> bool:
        return key in self._deadlines_ms

    def arm(self, key: KeyT, after_ms: int) -> None:
        deadline_ms = self._now_ms() + after_ms
        self._deadlines_ms[key] = deadline_ms
        queued_ms = self._queued_ms.get(key)
        if queued_ms is None or deadline_ms < queued_ms:
            self._enqueue(key, deadline_ms)
            self._schedule()

    def cancel(self, key: KeyT) -> None:
        self._deadlines_ms.pop(key, None)

    def run_due(self) -> None:
        """Report every key whose deadline has passed."""
        now_ms = self._now_ms()
        due: list[KeyT] = []
        while self._queue and self._queue[0][0] <= now_ms:
            queued_ms, _, key = heapq.heappop(self._queue)
            if self._queued_ms.get(key) != queued_ms:
                continue  # it was queued again for an earlier time
            del self._queued_ms[key]
            deadline_ms = self._deadlines_ms.get(key)
            if deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                self._enqueue(key, deadline_ms)
            else:
                due.append(key)
        for key in due:
            # The callback of an earlier key may have cancelled or moved this one.
            if self._deadlines_ms.get(key, now_ms + 1) <= now_ms:
                del self._deadlines_ms[key]
                try:
                    self._on_due(key)
                except Exception as error:  # a callback that fails must not stop the others
                    self._loop.call_exception_handler({"message": "a timeout failed", "exception": error})
        self._schedule()

    def close(self) -> None:
        self._deadlines_ms.clear()
        self._queued_ms.clear()
        self._queue.clear()
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None

    def _enqueue(self, key: KeyT, deadline_ms: int) -> None:
        self._queued_ms[key] = deadline_ms
        heapq.heappush(self._queue, (deadline_ms, next(self._sequence), key))

    def _schedule(self) -> None:
        if not self._queue:
            return
        next_ms = self._queue[0][0]
        if self._wake_up is not None:
            if self._wake_up_ms <= next_ms:
                return
            self._wake_up.cancel()
        self._wake_up_ms = next_ms
        delay_ms = max(next_ms - self._now_ms(), 0)
        self._wake_up = self._loop.call_later(delay_ms / 1000, self._woken)

    def _now_ms(self) -> int:
        return round(self._clock.monotonic_s() * 1000)

    def _woken(self) -> None:
        self._wake_up = None
        self.run_due()
