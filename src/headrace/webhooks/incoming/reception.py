"""Requests to answers: what a server calls for each request. Runs in one event loop.

A request is verified, then looked up among those that were accepted, then written. The answer is 2xx only if the event
is in the topic (or on disk, with the policy `buffer`), or was accepted before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.clock import Clock, SystemClock
from headrace.edges.event import Event
from headrace.edges.settings import EdgeSettings
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster
from headrace.webhooks.errors import DamagedDefinition
from headrace.webhooks.incoming import answers
from headrace.webhooks.incoming.answers import Answer
from headrace.webhooks.incoming.counters import NO_SOURCE, Counters, Outcome
from headrace.webhooks.incoming.event_of import (
    BadContent,
    Identity,
    dead_letter_of,
    event_of,
    identity_of,
    identity_without_id,
    is_ping,
)
from headrace.webhooks.incoming.opened import OpenedSource
from headrace.webhooks.incoming.request import WebhookRequest
from headrace.webhooks.incoming.signatures import verify
from headrace.webhooks.incoming.signatures.verdict import Rejected
from headrace.webhooks.incoming.source import Source, sources
from headrace.webhooks.incoming.writer import EventWriter, Result

ANSWER_MS_MAX = 8_000
"""GitHub waits for ten seconds."""

OPEN_S_MAX = 2.0
REOPEN_S = 5.0
"""With a buffer: how long a request waits for the history of its topic, and when it is tried again."""

Making = Coroutine[Any, Any, Answer]


class Reception:
    def __init__(
        self,
        cluster: Cluster,
        edge: EdgeSettings,
        *,
        answer_ms_max: int = ANSWER_MS_MAX,
        clock: Clock | None = None,
        on_problem: Callable[[str], None] = lambda _text: None,
    ) -> None:
        """`edge` has the data folder and the overload policy. `on_problem` gets texts for people."""
        self._cluster = cluster
        self._answer_s_max = answer_ms_max / 1000
        self._clock = clock or SystemClock()
        self._on_problem = on_problem
        self._problems: dict[str, str] = {}
        self._catalog = sources(edge.data_dir)
        self._writer = EventWriter(cluster, edge, clock=self._clock, on_problem=on_problem)
        self.counters = Counters()
        self._opened: dict[str, OpenedSource] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        self._read_again_s: dict[str, float] = {}
        self._writing: dict[tuple[str, bytes], asyncio.Task[Answer]] = {}

    def close(self) -> None:
        """Blocking: deliver what was taken, for as long as the settings of edges say."""
        self._writer.close()

    # --- sources ---

    def find(self, name: str) -> Source | None:
        """The source of this name as it is defined now. DamagedDefinition: its file can't be read."""
        try:
            source = self._catalog.find(name)
        except DamagedDefinition as error:
            self._report(name, str(error))
            self.counters.add(name, Outcome.UNAVAILABLE)
            raise
        if source is None:
            self._opened.pop(name, None)
            self._problems.pop(name, None)
            self.counters.add_rejected(NO_SOURCE, "unknown name")
        return source

    def _report(self, name: str, text: str) -> None:
        """A problem may come with each request: people see it once until another one comes."""
        if self._problems.get(name) != text:
            self._problems[name] = text
            self._on_problem(f"webhook in {name}: {text}")

    async def _open(self, source: Source) -> OpenedSource:
        opened = self._opened.get(source.name)
        if opened is None or opened.source is not source:
            opened = OpenedSource(source, now_s=self._clock.monotonic_s(), before=opened)
            opened.add_history(self._writer.take_left(source.name))
            self._opened[source.name] = opened
        if not opened.is_complete:
            await self._complete(opened)
        return opened

    async def _complete(self, opened: OpenedSource) -> None:
        """Read what its topic knows. With a buffer, events are taken while the broker is unavailable: then what was
        accepted before a restart is known again when the broker is back."""
        name = opened.source.name
        if not self._writer.is_buffered:
            await asyncio.shield(self._read(opened))
        elif self._clock.monotonic_s() >= self._read_again_s.get(name, 0):
            reading = self._read(opened)
            await asyncio.wait({reading}, timeout=OPEN_S_MAX)
            if reading.done() and (error := reading.exception()) is not None:
                self._read_again_s[name] = self._clock.monotonic_s() + REOPEN_S
                self._report(name, str(error))

    def _read(self, opened: OpenedSource) -> asyncio.Task[None]:
        """One at a time for each source."""
        name = opened.source.name

        async def read() -> None:
            history = await asyncio.to_thread(opened.read, self._cluster, self._clock.now_ms())
            opened.add_history(history)
            opened.is_complete = True

        if name not in self._reading:
            self._reading[name] = asyncio.create_task(read())
            self._reading[name].add_done_callback(lambda _task: self._reading.pop(name))
        return self._reading[name]

    # --- requests ---

    async def receive(self, source: Source, request: WebhookRequest) -> Answer:
        now_ms = self._clock.now_ms()
        try:
            verify(source, request, now_ms)
        except Rejected as rejected:
            self.counters.add_rejected(source.name, rejected.why)
            return answers.NOT_ACCEPTED
        answer = answers.UNAVAILABLE
        try:
            async with asyncio.timeout(self._answer_s_max):
                answer = await self._receive(source, request, now_ms)
        except TimeoutError:
            self._report(source.name, "the broker does not acknowledge in time")
        except HeadraceError as error:
            self._report(source.name, str(error))
        assert answer.outcome is not None
        self.counters.add(source.name, answer.outcome)
        if answer.is_done:
            self._problems.pop(source.name, None)
        return answer

    async def _receive(self, source: Source, request: WebhookRequest, now_ms: int) -> Answer:
        if is_ping(source, request):
            return answers.PING
        opened = await self._open(source)
        reason = ""
        try:
            identity = identity_of(source, request)
        except BadContent as bad:
            identity, reason = identity_without_id(request), str(bad)
        if opened.recent.has_any(identity.keys, now_ms):
            return answers.DUPLICATE
        for key in identity.keys:
            if first := self._writing.get((source.name, key)):
                answer = await asyncio.shield(first)
                return answers.DUPLICATE if answer.is_done else answer
        if not opened.limiter.take(self._clock.monotonic_s()):
            return answers.OVER_RATE
        # Others with the same id wait for the task, which goes on if the sender disconnects.
        making = self._make(opened, request, identity, reason)
        return await asyncio.shield(self._claim(source.name, identity, making))

    def _claim(self, name: str, identity: Identity, making: Making) -> asyncio.Task[Answer]:
        task = asyncio.create_task(making)
        claimed = [(name, key) for key in identity.keys]
        self._writing.update(dict.fromkeys(claimed, task))

        def release(_task: asyncio.Task[Answer]) -> None:
            for each in claimed:
                del self._writing[each]

        task.add_done_callback(release)
        return task

    async def _make(
        self, opened: OpenedSource, request: WebhookRequest, identity: Identity, reason: str
    ) -> Answer:
        """Write the event, or the dead letter. It is known as accepted before anyone else looks for it."""
        try:
            answer = await self._write(opened, request, identity, reason)
        except HeadraceError as error:
            self._report(opened.source.name, str(error))
            return answers.UNAVAILABLE
        if answer.is_done:
            opened.recent.add(identity.keys, self._clock.now_ms())
        return answer

    async def _write(
        self, opened: OpenedSource, request: WebhookRequest, identity: Identity, reason: str
    ) -> Answer:
        try:
            if reason:
                raise BadContent(reason)
            event = event_of(opened.source, request, identity)
        except BadContent as bad:
            return await self._write_letter(opened, request, identity, str(bad), answers.DEAD_LETTER)
        if not await self._fits(opened, event):
            reason = f"the event has about {event.memory_bytes:,} bytes, and the topic takes {opened.event_bytes_max:,}"
            return await self._write_letter(opened, request, identity, reason, answers.TOO_LARGE)
        written = await self._writer.write(event)
        match written.result:
            case Result.DELIVERED:
                return answers.ACCEPTED
            case Result.BUFFERED:
                return answers.BUFFERED
            case Result.NO_ROOM:
                return answers.OVERLOADED
            case Result.STOPPED:
                return answers.UNAVAILABLE
            case Result.REJECTED:
                return await self._write_letter(
                    opened, request, identity, f"the broker rejects it: {written.why}", answers.UNAVAILABLE
                )

    async def _fits(self, opened: OpenedSource, event: Event) -> bool:
        """The owner of the topic may have raised its limit: it is read again before an event is rejected."""
        if not opened.fits(event):
            await asyncio.to_thread(opened.read_limit, self._cluster)
        return opened.fits(event)

    async def _write_letter(
        self, opened: OpenedSource, request: WebhookRequest, identity: Identity, reason: str, answer: Answer
    ) -> Answer:
        """One dead letter for all attempts of a request that the sender repeats."""
        now_ms = self._clock.now_ms()
        if not answer.is_done and opened.lettered.has_any(identity.keys, now_ms):
            return answer
        letter = dead_letter_of(
            opened.source, request, identity, reason, retry=not answer.is_done, now_ms=now_ms
        )
        written = await self._writer.write(letter)
        if not written.is_kept:
            return answers.OVERLOADED if written.result is Result.NO_ROOM else answers.UNAVAILABLE
        if not answer.is_done:
            opened.lettered.add(identity.keys, now_ms)
        return answer
