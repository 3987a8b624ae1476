"""What all consumers of queues may cost: their number, and the threads that wait for the broker."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from headrace.gateway.errors import Overloaded
from headrace.gateway.queues.consumer import Consumer

ADMIN_THREADS = 4
"""For settings of groups, besides one thread for each consumer."""

T = TypeVar("T")


class Consumers:
    """Those of all queues. An unused one makes place for a new one."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._all: set[Consumer] = set()
        self._unused: dict[Consumer, str] = {}
        """With their queue, the one that is unused for the longest time first."""
        self._closing: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(
            count_max + ADMIN_THREADS, thread_name_prefix="headrace-gateway-queue"
        )

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def borrow(self, queue: str, config: Mapping[str, Any], topic: str, count: int) -> Consumer:
        """An unused one, or a new one."""
        for each, its_queue in self._unused.items():
            if its_queue == queue and each.count == count:
                del self._unused[each]
                return each
        if len(self._all) >= self._count_max and self._unused:
            self.discard(next(iter(self._unused)))
        if len(self._all) >= self._count_max or len(self._closing) > self._count_max:
            raise Overloaded(
                f"all {self._count_max} consumers of queues wait for messages, or hold some",
                hint="acknowledge messages, or receive later; queue_consumers_max in [gateway] is the bound",
            )
        consumer = Consumer(config, topic, count, self._threads)
        self._all.add(consumer)
        try:
            await consumer.open()
        except BaseException:
            self.discard(consumer)
            raise
        return consumer

    def put_back(self, consumer: Consumer, queue: str) -> None:
        """Nothing of it is locked, and it does not fetch."""
        consumer.unused_since_s = time.monotonic()
        self._unused[consumer] = queue

    def is_unused(self, consumer: Consumer) -> bool:
        return consumer in self._unused or consumer not in self._all

    def discard(self, consumer: Consumer) -> asyncio.Task[None]:
        """Close it, in the background. It does not count any more: its threads are about to end."""
        self._all.discard(consumer)
        self._unused.pop(consumer, None)
        task = asyncio.create_task(consumer.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    def discard_unused(self, *, since_s: float) -> None:
        """Those that were not used since then: their partitions go to other consumers of the group."""
        for each in [*self._unused]:
            if each.unused_since_s <= since_s:
                self.discard(each)

    async def close(self) -> None:
        """All of them, which releases what they have locked."""
        for each in [*self._all]:
            self.discard(each)
        await asyncio.gather(*self._closing, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown)
