"""Fetches that wait for data (long polls): woken when enough bytes came, or when their time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headrace.broker.partition import Partition


class FetchWaiter:
    """One waiting fetch; `woken` is done when it should look again."""

    __slots__ = ("_all", "_missing_bytes", "_partitions", "_timer", "woken")

    def __init__(
        self,
        everyone: set[FetchWaiter],
        partitions: Sequence[Partition],
        missing_bytes: int,
        woken: asyncio.Future[None],
    ) -> None:
        self._all = everyone
        self._partitions = partitions
        self._missing_bytes = missing_bytes
        self._timer: asyncio.TimerHandle | None = None
        self.woken = woken
        everyone.add(self)
        for partition in partitions:
            partition.waiters.add(self)

    def wake_after(self, timeout_s: float) -> None:
        self._timer = self.woken.get_loop().call_later(timeout_s, self.wake)

    def add(self, added_bytes: int) -> None:
        self._missing_bytes -= added_bytes
        if self._missing_bytes <= 0:
            self.wake()

    def wake(self) -> None:
        if self.woken.done():
            return
        self.woken.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        self._all.discard(self)
        for partition in self._partitions:
            partition.waiters.discard(self)


class FetchWaiters:
    """All waiting fetches, and the bound on their number."""

    def __init__(self, loop: asyncio.AbstractEventLoop, waiting_max: int) -> None:
        self._loop = loop
        self._waiting_max = waiting_max
        self._waiting: set[FetchWaiter] = set()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= self._waiting_max

    def register(
        self, partitions: Sequence[Partition], *, missing_bytes: int, timeout_s: float
    ) -> FetchWaiter:
        """Wait from this moment on: an append right after this call is not missed."""
        waiter = FetchWaiter(self._waiting, partitions, missing_bytes, self._loop.create_future())
        waiter.wake_after(timeout_s)
        return waiter

    def wake_all(self) -> None:
        for waiter in tuple(self._waiting):
            waiter.wake()
