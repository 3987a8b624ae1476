"""A target of a queue at work: each message is accepted when it is delivered, and released when it failed.

The broker counts the deliveries of a message, delays the next one, and makes it a dead letter at the group's limit; its
settings are set here when the group is new. A broker without a back-off of its own (Apache Kafka) redelivers at once:
there a failed message is held for a part of its lock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from enum import Enum

from msgspec import Struct

from headrace.queue.errors import AlreadyAcknowledged
from headrace.queue.group_settings import (
    DELIVERY_LIMIT,
    LOCK_DURATION,
    RETRY_BACKOFF,
    ensure_settings,
)
from headrace.queue.message import Message
from headrace.queue.queue import RUN_MEMBERS_MAX, Queue
from headrace.webhooks.outgoing.attempts import Attempt, AttemptLog
from headrace.webhooks.outgoing.delivery import Counts
from headrace.webhooks.outgoing.health import Health
from headrace.webhooks.outgoing.message import Outgoing, outgoing
from headrace.webhooks.outgoing.outcomes import Answer, Verdict
from headrace.webhooks.outgoing.parts import Parts
from headrace.webhooks.outgoing.selection import Selection
from headrace.webhooks.outgoing.sender import Sender
from headrace.webhooks.outgoing.settings import OutgoingSettings
from headrace.webhooks.outgoing.state import TargetStatus
from headrace.webhooks.outgoing.target import Target

DELIVERIES_MAX = "10"
"""The most that Apache Kafka allows; with the back-off of five seconds to an hour, some five hours."""

PREFETCH = 2
"""Messages that a member locks at a time: the last of them waits for the others, within the lock."""

LOCK_SPARE_MS = 10_000
LOCK_MS_MAX = 60_000
"""The most that brokers allow by default."""

_BACK_OFF_MAX = "headrace.share.retry.backoff.max.ms"
_BACK_OFF_MULTIPLIER = "headrace.share.retry.backoff.multiplier"


class _Fate(Enum):
    ACCEPT = "accept"
    RELEASE = "release"
    REJECT = "reject"


class _Decision(Struct, frozen=True):
    fate: _Fate
    reason: str = ""


class QueueRun:
    def __init__(
        self,
        target: Target,
        parts: Parts,
        *,
        attempts: AttemptLog,
        health: Health,
        on_pause: Callable[[str], None],
    ) -> None:
        self._target = target
        self._parts = parts
        self._settings = parts.settings
        self._clock = parts.clock
        self._attempts = attempts
        self._on_pause = on_pause
        self._loop = asyncio.get_running_loop()
        self._sender = Sender(target, parts.settings, parts.clock, lookup=parts.lookup)
        self._selection = Selection(target)
        self._back_off = parts.settings.back_off()
        self._hold_s_max = 0.0
        self._in_flight = 0
        self._is_stopping = threading.Event()
        self._failure: BaseException | None = None
        self.health = health
        self._counts = Counts()
        self._queue = Queue(
            target.queue,
            group=target.group,
            bootstrap=parts.cluster.bootstrap,
            prefetch=PREFETCH,
            ordered=target.ordered_by_key,
            config={"error_cb": lambda _error: None},
            timeout_s=parts.cluster.timeout_s,
        )
        self._thread = threading.Thread(target=self._run, name=f"webhook-{target.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            settings = ensure_settings(
                self._parts.cluster, self._target.group, group_settings(self._target, self._settings)
            )
            if RETRY_BACKOFF not in settings.values:
                self._hold_s_max = settings.lock_s / 2
            with self._queue:
                self._queue.run(self._handle, concurrency=min(self._target.parallel, RUN_MEMBERS_MAX))
        except BaseException as error:
            self._failure = error

    def _handle(self, message: Message) -> None:
        """In a thread of the queue."""
        if self._is_stopping.is_set():
            return message.release()
        found = outgoing(message.raw, self._target)
        if not self._selection.wants(found):
            self._counts.skipped += 1
            return message.accept()
        if found.problem:
            self._counts.dead_letters += 1
            return message.reject(found.problem)
        found.attempts = message.delivery_count - 1
        decision = asyncio.run_coroutine_threadsafe(self._deliver(found), self._loop).result()
        try:
            match decision.fate:
                case _Fate.ACCEPT:
                    message.accept()
                case _Fate.RELEASE:
                    message.release(decision.reason)
                case _Fate.REJECT:
                    message.reject(decision.reason)
        except AlreadyAcknowledged:
            return None  # its lock has ended: it is delivered again
        return None

    async def _deliver(self, message: Outgoing) -> _Decision:
        self._in_flight += 1
        try:
            answer = await self._sender.send(message)
        finally:
            self._in_flight -= 1
        message.attempts += 1
        self._note(message, answer)
        now_ms = self._clock.now_ms()
        verdict = answer.verdict
        if verdict is Verdict.DELIVERED:
            self._counts.delivered += 1
            self.health = self.health.succeeded(now_ms)
            return _Decision(_Fate.ACCEPT)
        self._counts.failed += 1
        self.health = self.health.failed(now_ms)
        reason = f"{answer.error}, after {message.attempts} attempts"
        if verdict is Verdict.GONE:
            self._pause(f"{answer.error}: the target wants no more requests")
        elif self.health.failing_ms(now_ms) >= self._settings.pause_after_ms:
            self._pause(f"no success since the first failure: {answer.error}")
        elif verdict is Verdict.REJECTED and message.attempts >= self._settings.rejected_attempts_max:
            self._counts.dead_letters += 1
            return _Decision(_Fate.REJECT, reason)
        if self._hold_s_max:
            delay_s = (
                self._back_off.delay_ms(message.attempts, answer.retry_after_ms, self._parts.random()) / 1000
            )
            await asyncio.sleep(min(delay_s, self._hold_s_max))
        return _Decision(_Fate.RELEASE, reason)

    def _note(self, message: Outgoing, answer: Answer) -> None:
        self._attempts.append(Attempt.of(message, answer, self._clock.now_ms()))

    def _pause(self, reason: str) -> None:
        self._is_stopping.set()
        self._on_pause(reason)

    def look(self) -> None:
        """Raises what ended the thread."""
        if self._failure is not None:
            raise self._failure

    def status(self) -> TargetStatus:
        counts = self._counts
        return TargetStatus(
            delivered=counts.delivered,
            failed=counts.failed,
            skipped=counts.skipped,
            dead_letters=counts.dead_letters,
            in_flight=self._in_flight,
            pending=self._in_flight,
        )

    async def stop(self) -> None:
        """Wait for the answers to what is in flight; everything else is released."""
        self._is_stopping.set()
        self._queue.stop()
        await asyncio.to_thread(self._thread.join)
        await self._sender.close()


def group_settings(target: Target, settings: OutgoingSettings) -> dict[str, str]:
    """Of a new group."""
    lock_ms = min(LOCK_MS_MAX, (PREFETCH + 1) * target.timeout_ms + LOCK_SPARE_MS)
    return {
        DELIVERY_LIMIT: DELIVERIES_MAX,
        LOCK_DURATION: str(lock_ms),
        RETRY_BACKOFF: str(settings.retry_ms_first),
        _BACK_OFF_MAX: str(settings.retry_ms_max),
        _BACK_OFF_MULTIPLIER: str(float(settings.retry_factor)),
    }
