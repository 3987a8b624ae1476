"""Many time-outs behind one wake-up of the event loop.

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
        self._deadlines_s: dict[KeyT, float] = {}
        # When the queue will look at a key: at its deadline, or earlier if that was moved since.
        self._queued_s: dict[KeyT, float] = {}
        self._queue: list[tuple[float, int, KeyT]] = []
        self._sequence = itertools.count()  # keeps keys from being compared
        self._wake_up: asyncio.TimerHandle | None = None
        self._wake_up_s = 0.0

    def __len__(self) -> int:
        return len(self._deadlines_s)

    def arm(self, key: KeyT, after_ms: int) -> None:
        deadline_s = self._clock.monotonic_s() + after_ms / 1000
        self._deadlines_s[key] = deadline_s
        queued_s = self._queued_s.get(key)
        if queued_s is None or deadline_s < queued_s:
            self._enqueue(key, deadline_s)
            self._schedule()

    def cancel(self, key: KeyT) -> None:
        self._deadlines_s.pop(key, None)

    def run_due(self) -> None:
        """Report every key whose deadline has passed."""
        now_s = self._clock.monotonic_s()
        due: list[KeyT] = []
        while self._queue and self._queue[0][0] <= now_s:
            queued_s, _, key = heapq.heappop(self._queue)
            if self._queued_s.get(key) != queued_s:
                continue  # it was queued again for an earlier time
            del self._queued_s[key]
            deadline_s = self._deadlines_s.get(key)
            if deadline_s is None:
                continue
            if deadline_s > now_s:
                self._enqueue(key, deadline_s)
            else:
                due.append(key)
        for key in due:
            # What an earlier key did may have cancelled this one or moved it.
            if self._deadlines_s.get(key, now_s + 1) <= now_s:
                del self._deadlines_s[key]
                self._on_due(key)
        self._schedule()

    def close(self) -> None:
        self._deadlines_s.clear()
        self._queued_s.clear()
        self._queue.clear()
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None

    def _enqueue(self, key: KeyT, deadline_s: float) -> None:
        self._queued_s[key] = deadline_s
        heapq.heappush(self._queue, (deadline_s, next(self._sequence), key))

    def _schedule(self) -> None:
        if not self._queue:
            return
        next_s = self._queue[0][0]
        if self._wake_up is not None:
            if self._wake_up_s <= next_s:
                return
            self._wake_up.cancel()
        self._wake_up_s = next_s
        delay_s = max(next_s - self._clock.monotonic_s(), 0.0)
        self._wake_up = self._loop.call_later(delay_s, self._woken)

    def _woken(self) -> None:
        self._wake_up = None
        self.run_due()
