"""Sends messages: a lane for each target, with a thread while it has messages, so that no target delays another.

A lane sends its messages in order, one at a time, and retries each with a growing pause until its deadline.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Container

from msgspec import Struct

from headrace.alerts import points
from headrace.alerts.errors import DeliveryFailed
from headrace.alerts.message import Waiting
from headrace.clock import Clock

WAITING_MAX = 100
"""Messages of a lane. More of them, for a target that takes none, become dead letters at once."""

PAUSE_S_MIN, PAUSE_S_MAX = 1.0, 300.0
"""Between two attempts. It doubles, and a random part of up to a half is taken off, so that targets that failed
together are not tried together."""

STOP_S_MAX = 10.0
"""How long a stop waits for attempts in flight. What they send is sent again if it is not marked."""

TaskId = tuple[str, str]


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of an attempt."""

    waiting: Waiting
    at_ms: int
    attempt: int
    reason: str = ""
    """why it failed, or what else there is to know; empty after a delivery without problems"""
    is_delivered: bool = False
    is_dead: bool = False

    @property
    def is_over(self) -> bool:
        return self.is_delivered or self.is_dead


class Lanes:
    """`deliver` sends one message and returns a remark, or raises DeliveryFailed; `retry_for_ms` is of its alert."""

    def __init__(
        self,
        deliver: Callable[[Waiting], str],
        retry_for_ms: Callable[[Waiting], int],
        clock: Clock,
        *,
        pause_s_min: float = PAUSE_S_MIN,
    ) -> None:
        self._deliver = deliver
        self._retry_for_ms = retry_for_ms
        self._clock = clock
        self._pause_s_min = pause_s_min
        self._lock = threading.Lock()
        self._lanes: dict[str, deque[Waiting]] = {}
        self._known: set[TaskId] = set()
        """messages that wait, are sent, or were taken and not marked"""
        self._outcomes: list[Outcome] = []
        self._stopping = threading.Event()
        self._threads: set[threading.Thread] = set()

    def count(self, target: str) -> int:
        """Messages that wait for the target."""
        with self._lock:
            return len(self._lanes.get(target, ()))

    def keep(self, ids: Container[TaskId]) -> None:
        """The log has only these messages: outcomes of all others are in it already."""
        with self._lock:
            self._outcomes = [each for each in self._outcomes if each.waiting.id in ids]

    def add(self, waiting: Waiting) -> None:
        """Send it, unless it is here already."""
        with self._lock:
            if waiting.id in self._known or self._stopping.is_set():
                return
            self._known.add(waiting.id)
            if waiting.target in self._lanes:
                self._lanes[waiting.target].append(waiting)
                return
            self._lanes[waiting.target] = deque([waiting])
            thread = threading.Thread(
                target=self._run, args=(waiting.target,), name=f"alerts-{waiting.target}", daemon=True
            )
            self._threads.add(thread)
            thread.start()

    def outcomes(self) -> list[Outcome]:
        """Of attempts, since the last `marked`."""
        with self._lock:
            return [*self._outcomes]

    def marked(self, outcomes: list[Outcome]) -> None:
        """The log has these outcomes."""
        with self._lock:
            del self._outcomes[: len(outcomes)]
            self._known.difference_update(each.waiting.id for each in outcomes if each.is_over)

    def stop(self) -> None:
        """End after the attempts in flight."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        deadline_s = self._clock.monotonic_s() + STOP_S_MAX
        for thread in [*self._threads]:
            thread.join(max(deadline_s - self._clock.monotonic_s(), 0))

    def _run(self, target: str) -> None:
        while not self._stopping.is_set():
            with self._lock:
                lane = self._lanes[target]
                if not lane:
                    del self._lanes[target]
                    break
                waiting = lane[0]
            self._send(waiting)
            if self._stopping.is_set():
                break
            with self._lock:
                lane.popleft()
        self._threads.discard(threading.current_thread())

    def _send(self, waiting: Waiting) -> None:
        """Until it is taken or dead, or a stop."""
        pause_s = self._pause_s_min
        attempt = 0
        while not self._stopping.is_set():
            attempt += 1
            outcome = self._attempt(waiting, attempt)
            with self._lock:
                self._outcomes.append(outcome)
            if outcome.is_over:
                return
            self._stopping.wait(pause_s * random.uniform(0.5, 1))
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    def _attempt(self, waiting: Waiting, attempt: int) -> Outcome:
        points.reached("before-send")
        try:
            remark = self._deliver(waiting)
        except Exception as error:
            # A library of a target may raise anything, and must not end the lane.
            now_ms = self._clock.now_ms()
            is_final = isinstance(error, DeliveryFailed) and error.is_final
            reason = error.reason if isinstance(error, DeliveryFailed) else f"{type(error).__name__}: {error}"
            is_late = now_ms >= waiting.message.at_ms + self._retry_for_ms(waiting)
            return Outcome(
                waiting=waiting, at_ms=now_ms, attempt=attempt, reason=reason, is_dead=is_final or is_late
            )
        points.reached("accepted")
        return Outcome(
            waiting=waiting, at_ms=self._clock.now_ms(), attempt=attempt, reason=remark, is_delivered=True
        )
