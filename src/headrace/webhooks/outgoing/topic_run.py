"""A target of a topic at work: its reader in a thread, its connections and its deliveries in the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from headrace.webhooks.outgoing.attempts import AttemptLog
from headrace.webhooks.outgoing.delivery import Delivery
from headrace.webhooks.outgoing.health import Health
from headrace.webhooks.outgoing.letters import Letters
from headrace.webhooks.outgoing.message import Outgoing
from headrace.webhooks.outgoing.parts import Parts
from headrace.webhooks.outgoing.progress import Place, Progress
from headrace.webhooks.outgoing.sender import Sender
from headrace.webhooks.outgoing.state import TargetStatus
from headrace.webhooks.outgoing.target import Target
from headrace.webhooks.outgoing.topic_source import TopicSource

ANSWER_SPARE_S = 2.0
"""Beyond the timeout of an attempt, for the body of its answer."""


class TopicRun:
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
        self._loop = asyncio.get_running_loop()
        self._sender = Sender(target, parts.settings, parts.clock, lookup=parts.lookup)
        self._letters = Letters(target, parts.cluster)
        progress = Progress()
        self._delivery = Delivery(
            target,
            parts.settings,
            sender=self._sender,
            letters=self._letters,
            progress=progress,
            attempts=attempts,
            clock=parts.clock,
            random=parts.random,
            health=health,
            on_pause=on_pause,
        )
        self._source = TopicSource(
            target,
            parts.cluster,
            progress,
            on_messages=self._on_messages,
            on_forget=self._on_forget,
            has_room=lambda: self._delivery.has_room,
        )
        self._source.start()

    def _on_messages(self, messages: Sequence[Outgoing]) -> None:
        self._loop.call_soon_threadsafe(self._delivery.add, messages)

    def _on_forget(self, places: Sequence[Place]) -> None:
        self._loop.call_soon_threadsafe(self._delivery.forget, places)

    @property
    def health(self) -> Health:
        return self._delivery.health

    def look(self) -> None:
        """From time to time: send what has waited long enough; raises what ended the reader or a delivery."""
        for failure in (self._source.failure, self._delivery.failure):
            if failure is not None:
                raise failure
        self._delivery.pump()

    def status(self) -> TargetStatus:
        counts = self._delivery.counts
        return TargetStatus(
            error=self._source.error,
            delivered=counts.delivered,
            failed=counts.failed,
            skipped=self._source.skipped,
            dead_letters=counts.dead_letters,
            in_flight=self._delivery.in_flight,
            pending=self._delivery.pending,
        )

    async def stop(self) -> None:
        """Wait for the answers to what is in flight, commit, and leave the group."""
        await self._delivery.drain(self._target.timeout_ms / 1000 + ANSWER_SPARE_S)
        await asyncio.to_thread(self._source.close)
        await self._sender.close()
        await asyncio.to_thread(self._letters.close)
