"""A queue in an event loop. The client library has no asyncio API: calls that may wait run in threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from types import TracebackType
from typing import Self, TypeVar, Unpack

from confluent_kafka import AcknowledgeType

from headrace.queue.errors import QueueUnusable, RequestTimedOut
from headrace.queue.message import Delivery, Errors, Message, MessageId
from headrace.queue.outbox import FULL_S, Headers
from headrace.queue.queue import RUN_MEMBERS_MAX, TIMEOUT_S, Queue, QueueOptions
from headrace.queue.requests import Reply
from headrace.queue.runner import LOOK_S, Allowance, raise_or_log, stopped_by_signals

CALLERS = 8
"""Threads for calls that are brief or wait for one answer: acknowledging, opening, closing."""

T = TypeVar("T")


class AsyncMessage(Delivery):
    """Locked for this worker until it is accepted, released or rejected, or its lock ends."""

    __slots__ = ("_message", "_queue")

    def __init__(self, queue: AsyncQueue, message: Message) -> None:
        super().__init__(message.raw)
        self._queue = queue
        self._message = message

    @property
    def is_acknowledged(self) -> bool:
        return self._message.is_acknowledged

    async def accept(self) -> None:
        """Done: no worker of the group gets it again. `await queue.flush()` waits for the broker's answer."""
        await self._acknowledge(AcknowledgeType.ACCEPT)

    async def release(self, reason: str = "") -> None:
        """Not now: it is redelivered after the group's back-off."""
        await self._acknowledge(AcknowledgeType.RELEASE, reason)

    async def reject(self, reason: str = "") -> None:
        """Never: it is not redelivered, and becomes a dead letter of the group, with the reason."""
        await self._acknowledge(AcknowledgeType.REJECT, reason)

    async def reply(self, value: bytes | str | None = b"") -> None:
        """Reply to a request, and accept it when the reply is stored. Raises as `Message.reply` does."""
        await self._queue.in_thread(lambda: self._message.reply(value))

    @asynccontextmanager
    async def process(self, *, reject_on: Errors = ()) -> AsyncIterator[None]:
        """Accept the message at the end of the block; release it if the block raises, or reject it for an error in
        `reject_on`. The error is raised again. A block may acknowledge the message itself."""
        try:
            yield
        except BaseException as error:
            await self.acknowledge_by(error, reject_on)
            raise
        await self.acknowledge_by(None, reject_on)

    async def acknowledge_by(self, error: BaseException | None, reject_on: Errors) -> None:
        await self._queue.in_thread(lambda: self._message.acknowledge_by(error, reject_on))

    async def _acknowledge(self, how: AcknowledgeType, reason: str = "") -> None:
        await self._queue.in_thread(lambda: self._message.acknowledge(how, reason))


class AsyncQueue:
    """`Queue` for asyncio, with the same arguments.

        async with AsyncQueue("emails", group="senders") as queue:
            async for message in queue:
                async with message.process():
                    await send(message.value)

    Every call that may wait is awaited.
    """

    def __init__(self, *topics: str, **options: Unpack[QueueOptions]) -> None:
        self._queue = Queue(*topics, **options)
        self._is_open = self._is_closed = False
        self._putting = asyncio.Lock()

    @property
    def group(self) -> str:
        return self._queue.group

    @property
    def bootstrap(self) -> str:
        return self._queue.bootstrap

    # Opening and closing

    async def __aenter__(self) -> Self:
        if not self._is_open:
            await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect. Raises QueueUnusable as `Queue.open` does."""
        self._is_closed = False
        self._takers = ThreadPoolExecutor(RUN_MEMBERS_MAX, thread_name_prefix="queue-take")
        self._callers = ThreadPoolExecutor(CALLERS, thread_name_prefix="queue-call")
        try:
            await self.in_thread(self._queue.open)
        except BaseException:
            self._end_threads()
            raise
        self._is_open = True

    def stop(self) -> None:
        """Let `async for` loops, `run` and waiting `get`s end. May be called from a signal handler."""
        self._queue.stop()

    async def close(self) -> None:
        """Wait until the broker has all acknowledgements and messages, release the other messages, leave the group."""
        if self._is_open:
            self._is_open = False
            await self.in_thread(self._queue.close)
            self._end_threads()

    def _end_threads(self) -> None:
        self._is_closed = True
        self._takers.shutdown(wait=False)
        self._callers.shutdown(wait=False)

    async def in_thread(self, call: Callable[[], T]) -> T:
        if self._is_closed:
            return call()  # the threads have ended, and the call fails immediately
        return await asyncio.get_running_loop().run_in_executor(self._callers, call)

    # Taking messages

    def __aiter__(self) -> Self:
        """Messages as they are delivered, until `stop()`."""
        return self

    async def __anext__(self) -> AsyncMessage:
        message = await self.get()
        if message is None:
            raise StopAsyncIteration
        return message

    async def get(self, timeout: float | None = None) -> AsyncMessage | None:  # noqa: ASYNC109 (None at its end, no error)
        """The next message; None if none is delivered within `timeout` seconds, or the queue is stopped.

        It may be cancelled: a message that is delivered after that is returned by the next `get`.
        """
        self._require_open()
        deliveries = self._queue.deliveries
        is_cancelled = threading.Event()
        taking = asyncio.get_running_loop().run_in_executor(
            self._takers, deliveries.take, timeout, lambda: not is_cancelled.is_set()
        )

        def put_back(taken: asyncio.Future[Message | None]) -> None:
            is_there = not taken.cancelled() and taken.exception() is None
            if is_there and (message := taken.result()) is not None and self._is_open:
                self._takers.submit(deliveries.put_back, message)

        try:
            message = await asyncio.shield(taking)
        except asyncio.CancelledError:
            is_cancelled.set()
            taking.add_done_callback(put_back)
            raise
        return None if message is None else AsyncMessage(self, message)

    async def run(
        self,
        handler: Callable[[AsyncMessage], Awaitable[object]],
        *,
        concurrency: int = 1,
        reject_on: Errors = (),
        count: int | None = None,
        stop_when_idle_s: float | None = None,
    ) -> None:
        """Await `handler` with each message, at most `concurrency` at a time, until SIGTERM, Ctrl-C or `stop()`.

        A message is acknowledged by the outcome as in `Queue.run`. After the first signal, running handlers finish and
        this returns. A second one does what it does without a queue: asyncio's Ctrl-C cancels the main task. The
        message of a handler that is cancelled is released.
        """
        async with nullcontext() if self._is_open else self:
            self._queue.raise_members(concurrency)
            await self._run(handler, concurrency, reject_on, Allowance(count=count, idle_s=stop_when_idle_s))

    async def _run(
        self,
        handler: Callable[[AsyncMessage], Awaitable[object]],
        concurrency: int,
        reject_on: Errors,
        allowance: Allowance,
    ) -> None:
        workers = [asyncio.create_task(self._work(handler, reject_on, allowance)) for _ in range(concurrency)]
        watcher = asyncio.create_task(self._stop_when_idle(allowance))
        with stopped_by_signals([self.stop]):
            try:
                await asyncio.gather(*workers)
            except BaseException:
                # The error of one worker stops the others once their handlers have finished.
                self.stop()
                raise
            finally:
                watcher.cancel()
                await asyncio.gather(*workers, watcher, return_exceptions=True)

    async def _work(
        self, handler: Callable[[AsyncMessage], Awaitable[object]], reject_on: Errors, allowance: Allowance
    ) -> None:
        while allowance.may_take():
            message = await self.get()
            if message is None:
                break
            with allowance.at_work():
                await _handle(message, handler, reject_on)

    async def _stop_when_idle(self, allowance: Allowance) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if allowance.is_idle():
                self.stop()

    # Putting messages

    async def put(
        self,
        value: bytes | str,
        *,
        key: bytes | str | None = None,
        headers: Headers = (),
        topic: str | None = None,
    ) -> MessageId:
        """Write a message and wait until it is stored; its topic, partition and offset. Raises MessageNotStored.

        `asyncio.gather` of several keeps their order, and does not wait for each in turn.
        """
        self._require_open()
        async with self._putting:
            stored = await self._send(value, key, headers, topic)
        return await asyncio.wrap_future(stored)

    async def _send(
        self, value: bytes | str, key: bytes | str | None, headers: Headers, topic: str | None
    ) -> Future[MessageId]:
        outbox = self._queue.outbox
        if not outbox.is_started:
            await self.in_thread(outbox.started)
        if topic is not None:
            await self.in_thread(lambda: self._queue.topic_of_put(topic))
        while True:
            try:
                return outbox.send(self._queue.topic_of_put(topic), value, key, headers)
            except BufferError:
                await asyncio.sleep(FULL_S)

    async def request(
        self,
        value: bytes | str,
        *,
        timeout: float = TIMEOUT_S,  # noqa: ASYNC109 (workers get it, too)
        key: bytes | str | None = None,
        headers: Headers = (),
        topic: str | None = None,
    ) -> Reply:
        """Write a message that asks for a reply, and wait for it. Raises as `Queue.request` does.

        `asyncio.gather` of several does not wait for each in turn. A request that is cancelled is forgotten: its reply
        is dropped.
        """
        self._require_open()
        name = await self.in_thread(lambda: self._queue.topic_of_put(topic))
        reply = await self.in_thread(
            lambda: self._queue.request_nowait(value, timeout=timeout, key=key, headers=headers, topic=name)
        )
        try:
            return await asyncio.wrap_future(reply)
        except RequestTimedOut as timed_out:
            error = timed_out
        raise await self.in_thread(lambda: self._queue.explain(error, name))

    @property
    def late_replies(self) -> int:
        """Replies that were read after the time-out of their request, and dropped."""
        return self._queue.late_replies

    @property
    def duplicate_replies(self) -> int:
        """Second replies to a request, which were dropped: the first one counts."""
        return self._queue.duplicate_replies

    # In flight

    async def flush(self) -> None:
        """Wait until the broker has answered every acknowledgement; raises AcknowledgementLost if it rejected some."""
        self._require_open()
        await self.in_thread(self._queue.flush)

    @property
    def lock_s(self) -> float:
        """The lock timeout of a message."""
        return self._queue.lock_s

    @property
    def lost(self) -> int:
        """Acknowledgements that the broker rejected, mostly because the lock had timed out."""
        return self._queue.lost

    def _require_open(self) -> None:
        if not self._is_open:
            raise QueueUnusable("the queue is not open", hint="use it inside `async with`")


async def _handle(
    message: AsyncMessage, handler: Callable[[AsyncMessage], Awaitable[object]], reject_on: Errors
) -> None:
    failure: BaseException | None = None
    try:
        result = await handler(message)
        if message.is_request and not message.is_acknowledged:
            await message.reply(result)  # type: ignore[arg-type]  # it is checked there
    except BaseException as error:
        failure = error
    await message.acknowledge_by(failure, reject_on)
    raise_or_log(message, failure)
