"""A consumer of a share group, used from the event loop: each call waits for the one before it, in a thread.

The client returns the next messages only once all of the last ones are acknowledged. So a consumer serves one `receive`
at a time, and is free again when its messages are acknowledged or their locks have ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from confluent_kafka import AcknowledgeType, KafkaError
from confluent_kafka import Message as KafkaMessage

from headrace.queue.member import Member

ANSWER_S_MAX = 10.0
"""For an acknowledgement, by a broker that responds within milliseconds."""

T = TypeVar("T")


class Consumer:
    """`count` is how many messages it locks at a time, at most."""

    def __init__(
        self, config: Mapping[str, Any], topic: str, count: int, threads: ThreadPoolExecutor
    ) -> None:
        self.count = count
        self.unused_since_s = 0.0
        self.is_unsound = False
        """The broker rejected an acknowledgement: it may not know this consumer any more."""
        self.timers: list[asyncio.TimerHandle] = []
        self._unavailable_at_s = float("-inf")
        self._topic = topic
        self._config = {**config, "max.poll.records": count, "error_cb": self._on_error}
        self._threads = threads
        self._turn = asyncio.Lock()
        self._member: Member | None = None

    async def open(self) -> None:
        await self._call(self._open)

    async def poll(self, timeout_s: float) -> list[KafkaMessage]:
        """The next messages. If this is cancelled, they are released when the consumer is closed."""
        return await self._call(lambda: self._opened().poll(timeout_s))

    async def acknowledge(
        self, prepare: Callable[[], Sequence[tuple[KafkaMessage, AcknowledgeType]]]
    ) -> list[KafkaError | None]:
        """What the broker answers for each that `prepare` returns, which is called in the thread."""

        def acknowledge() -> list[KafkaError | None]:
            prepared = prepare()
            return self._opened().acknowledge_and_wait(prepared, ANSWER_S_MAX) if prepared else []

        return await self._call(acknowledge)

    async def close(self) -> None:
        """The broker releases immediately what is locked."""
        for each in self.timers:
            each.cancel()
        await self._call(self._close)

    def was_unavailable_since(self, time_s: float) -> bool:
        """Whether no broker could be reached at some moment after this time."""
        return self._unavailable_at_s >= time_s

    async def _call(self, work: Callable[[], T]) -> T:
        # A call that is cancelled still runs in its thread, and must keep the next one waiting.
        return await asyncio.shield(asyncio.create_task(self._in_turn(work)))

    async def _in_turn(self, work: Callable[[], T]) -> T:
        async with self._turn:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _open(self) -> None:
        self._member = Member(self._config)
        self._member.subscribe([self._topic])

    def _opened(self) -> Member:
        assert self._member is not None
        return self._member

    def _close(self) -> None:
        if self._member is not None:
            self._member.close(ANSWER_S_MAX)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._unavailable_at_s = time.monotonic()
