"""Delivers the messages of one target of a topic: what is in flight, what waits, and what becomes of each.

Everything here runs in one event loop. The thread that reads the topic looks at `has_room`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from headrace.clock import Clock
from headrace.webhooks.outgoing.attempts import Attempt, AttemptLog
from headrace.webhooks.outgoing.health import Health
from headrace.webhooks.outgoing.lanes import Lanes
from headrace.webhooks.outgoing.message import Outgoing
from headrace.webhooks.outgoing.outcomes import Answer, Verdict
from headrace.webhooks.outgoing.progress import Place, Progress
from headrace.webhooks.outgoing.settings import OutgoingSettings
from headrace.webhooks.outgoing.target import Target

RECOVERED_AFTER_MS = 60_000
"""A success after failures of so long means that the target works again."""

RECOVERY_SPREAD_S = 10.0
"""The waiting messages of a target that works again are sent within this time."""


class Sends(Protocol):
    async def send(self, message: Outgoing) -> Answer: ...


class WritesLetters(Protocol):
    async def write(self, message: Outgoing, reason: str) -> None: ...


class Counts:
    def __init__(self) -> None:
        self.delivered = self.failed = self.skipped = self.dead_letters = 0


class Delivery:
    def __init__(
        self,
        target: Target,
        settings: OutgoingSettings,
        *,
        sender: Sends,
        letters: WritesLetters,
        progress: Progress,
        attempts: AttemptLog,
        clock: Clock,
        random: Callable[[], float],
        health: Health,
        on_pause: Callable[[str], None],
    ) -> None:
        self._target = target
        self._settings = settings
        self._back_off = settings.back_off()
        self._sender = sender
        self._letters = letters
        self._progress = progress
        self._attempts = attempts
        self._clock = clock
        self._random = random
        self._on_pause = on_pause
        self.health = health
        self.counts = Counts()
        self.failure: BaseException | None = None
        """An error that is no answer. Nothing is sent after it."""
        self._lanes = Lanes(is_ordered=target.ordered_by_key)
        self._messages: dict[tuple[Place, int], Outgoing] = {}
        self._pending_bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopped = False

    @property
    def pending(self) -> int:
        return len(self._messages)

    @property
    def in_flight(self) -> int:
        return len(self._tasks)

    @property
    def has_room(self) -> bool:
        return (
            not self._is_stopped
            and len(self._messages) < self._settings.pending_max
            and self._pending_bytes < self._settings.pending_bytes_max
        )

    def add(self, messages: Iterable[Outgoing]) -> None:
        for message in messages:
            if not message.is_forgotten:
                self._messages[_place(message), message.origin.offset] = message
                self._pending_bytes += message.memory_bytes
                self._lanes.add(message)
        self.pump()

    def pump(self) -> None:
        """Send what may be sent now. Called when something has changed, and from time to time for what waits."""
        now_s = self._clock.monotonic_s()
        while not self._is_stopped and len(self._tasks) < self._target.parallel:
            message = self._lanes.take(now_s)
            if message is None:
                return
            task = asyncio.get_running_loop().create_task(self._process(message))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            self.failure = error
            self._is_stopped = True
        self.pump()

    async def _process(self, message: Outgoing) -> None:
        if message.problem:
            await self._bury(message, message.problem)
            return
        answer = await self._sender.send(message)
        if message.is_forgotten:
            return  # the process that has its partition sends it again
        message.attempts += 1
        now_ms = self._clock.now_ms()
        verdict = answer.verdict
        if verdict is Verdict.DELIVERED:
            self._note(message, answer, None)
            self._succeeded(now_ms)
            self._finish(message)
            return
        self.counts.failed += 1
        self.health = self.health.failed(now_ms)
        if verdict is Verdict.GONE:
            self._note(message, answer, None)
            self._pause(f"{answer.error}: the target wants no more requests")
        elif self._is_over(message, verdict):
            self._note(message, answer, None)
            await self._bury(message, f"{answer.error}, after {message.attempts} attempts")
        else:
            delay_ms = self._back_off.delay_ms(message.attempts, answer.retry_after_ms, self._random())
            self._note(message, answer, now_ms + delay_ms)
            self._lanes.retry(message, self._clock.monotonic_s() + delay_ms / 1000)
        if self.health.failing_ms(now_ms) >= self._settings.pause_after_ms:
            self._pause(
                f"no success since the first failure, {_hours(self.health.failing_ms(now_ms))} ago: {answer.error}"
            )

    def _is_over(self, message: Outgoing, verdict: Verdict) -> bool:
        now_ms = int(self._clock.monotonic_s() * 1000)
        if message.attempts == 1:
            message.failing_since_ms = now_ms
        if verdict is Verdict.REJECTED and message.attempts >= self._settings.rejected_attempts_max:
            return True
        return now_ms - message.failing_since_ms >= self._settings.retry_for_ms

    def _succeeded(self, now_ms: int) -> None:
        self.counts.delivered += 1
        if self.health.failing_ms(now_ms) >= RECOVERED_AFTER_MS:
            start_s = self._clock.monotonic_s()
            self._lanes.hasten(lambda: start_s + RECOVERY_SPREAD_S * self._random())
        self.health = self.health.succeeded(now_ms)

    async def _bury(self, message: Outgoing, reason: str) -> None:
        await self._letters.write(message, reason)
        self.counts.dead_letters += 1
        self._finish(message)

    def _finish(self, message: Outgoing) -> None:
        self._drop(message)
        self._lanes.leave(message)
        self._progress.done(_place(message), message.origin.offset)

    def _drop(self, message: Outgoing) -> None:
        known = _place(message), message.origin.offset
        if self._messages.get(known) is message:
            del self._messages[known]
            self._pending_bytes -= message.memory_bytes

    def _pause(self, reason: str) -> None:
        self._is_stopped = True
        self._on_pause(reason)

    def _note(self, message: Outgoing, answer: Answer, next_ms: int | None) -> None:
        self._attempts.append(Attempt.of(message, answer, self._clock.now_ms(), next_ms))

    def forget(self, places: Sequence[Place]) -> None:
        """Drop the messages of partitions that another process has now."""
        lost = set(places)
        for message in [each for each in self._messages.values() if _place(each) in lost]:
            message.is_forgotten = True
            self._drop(message)
        for place in lost:
            self._lanes.forget(*place)

    async def drain(self, timeout_s: float) -> None:
        """Send nothing more, and wait for the answers to what is in flight."""
        self._is_stopped = True
        if self._tasks:
            _done, pending = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in pending:
                task.cancel()
            await asyncio.gather(*pending, return_exceptions=True)


def _place(message: Outgoing) -> Place:
    return message.origin.topic, message.origin.partition


def _hours(duration_ms: int) -> str:
    return f"{duration_ms / 3_600_000:.1f} h"
