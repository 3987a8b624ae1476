"""Fetches that wait for data (long polls): woken when enough bytes came, or when their time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from headrace.broker.client import Client


class Waiters(Protocol):
    """A place where those look for a waiting fetch who may wake it."""

    def add(self, waiter: FetchWaiter, /) -> None: ...
    def discard(self, waiter: FetchWaiter, /) -> None: ...


class Watched(Protocol):
    """What wakes those who wait for it: a partition that grows, or what a share group is to get of one."""

    @property
    def waiters(self) -> Waiters: ...


class FetchWaiter:
    """One waiting fetch; `woken` is done when it should look again."""

    __slots__ = ("_missing_bytes", "_places", "_timer", "has_grown", "woken")

    def __init__(
        self,
        everyone: set[FetchWaiter],
        partitions: Sequence[Watched],
        client: Client,
        missing_bytes: int,
        woken: asyncio.Future[None],
    ) -> None:
        # Where those look for it who may wake it.
        self._places: list[Waiters] = [
            everyone,
            client.waiters,
            *(partition.waiters for partition in partitions),
        ]
        self._missing_bytes = missing_bytes
        self._timer: asyncio.TimerHandle | None = None
        self.woken = woken
        self.has_grown = False
        """Woken because bytes came, and not because its time or something else was over."""
        for place in self._places:
            place.add(self)

    def wake_after(self, timeout_s: float) -> None:
        self._timer = self.woken.get_loop().call_later(timeout_s, self.wake)

    def add(self, added_bytes: int) -> None:
        self._missing_bytes -= added_bytes
        if self._missing_bytes <= 0:
            self.has_grown = True
            self.wake()

    def wake(self) -> None:
        if self.woken.done():
            return
        self.woken.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
        for place in self._places:
            place.discard(self)


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
        self, partitions: Sequence[Watched], *, client: Client, missing_bytes: int, timeout_s: float
    ) -> FetchWaiter:
        """Wait from this moment on: an append right after this call is not missed."""
        waiter = FetchWaiter(self._waiting, partitions, client, missing_bytes, self._loop.create_future())
        waiter.wake_after(timeout_s)
        return waiter

    def wake_all(self) -> None:
        for waiter in tuple(self._waiting):
            waiter.wake()
