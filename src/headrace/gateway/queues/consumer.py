"""A consumer of a share group, used from the event loop: each call waits for the one before it, in a thread.

The client returns the next messages only once all of the last ones are acknowledged. So a consumer serves one `receive`
at a time, and is free again when its messages are acknowledged or their locks have ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from confluent_kafka import AcknowledgeType, KafkaError
from confluent_kafka import Message as KafkaMessage

from headrace.queue.member import Member

ANSWER_S_MAX = 10.0
"""For an acknowledgement, by a broker that responds within milliseconds."""

CLOSE_S_MAX = 20.0
"""librdkafka 2.16 may hang when it closes a share consumer that has just joined its group, on a busy machine."""

logger = logging.getLogger(__name__)

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
        try:
            async with asyncio.timeout(CLOSE_S_MAX):
                await self._closed()
        except TimeoutError:
            logger.warning("a consumer of topic %s does not close; its locks end by themselves", self._topic)

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

    async def _closed(self) -> None:
        async with self._turn:
            if (member := self._member) is None:
                return
            closed = asyncio.get_running_loop().create_future()
            # In a thread of its own: neither the other consumers nor the end of the process waits for it.
            threading.Thread(target=_close, args=(member, closed), daemon=True).start()
            await closed

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._unavailable_at_s = time.monotonic()


def _close(member: Member, closed: asyncio.Future[None]) -> None:
    def set_closed() -> None:
        if not closed.done():
            closed.set_result(None)

    try:
        member.close(ANSWER_S_MAX)
    finally:
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            closed.get_loop().call_soon_threadsafe(set_closed)
