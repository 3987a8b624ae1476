"""Fetches that wait for data (long polls): woken when enough bytes are appended, or after their timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from headrace.broker.client import Client


class Waiters(Protocol):
    """A set of waiting fetches that an event wakes."""

    def add(self, waiter: FetchWaiter, /) -> None: ...
    def discard(self, waiter: FetchWaiter, /) -> None: ...


class Watched(Protocol):
    """What fetches wait for: a partition that grows, or a share group's records of a partition."""

    @property
    def waiters(self) -> Waiters: ...


class FetchWaiter:
    """One waiting fetch; `woken` is done when it should read again."""

    __slots__ = ("_missing_bytes", "_sets", "_timer", "has_grown", "woken")

    def __init__(
        self,
        waiting: set[FetchWaiter],
        partitions: Sequence[Watched],
        client: Client,
        missing_bytes: int,
        timeout_s: float,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._sets: list[Waiters] = [
            waiting,
            client.waiters,
            *(partition.waiters for partition in partitions),
        ]
        self._missing_bytes = missing_bytes
        self._timer = loop.call_later(timeout_s, self.wake)
        self.woken: asyncio.Future[None] = loop.create_future()
        self.has_grown = False
        """Woken because bytes were appended, and not by its timeout or by another event."""
        for one in self._sets:
            one.add(self)

    def grown(self, added_bytes: int) -> None:
        self._missing_bytes -= added_bytes
        if self._missing_bytes <= 0:
            self.has_grown = True
            self.wake()

    def wake(self) -> None:
        if self.woken.done():
            return
        self.woken.set_result(None)
        self._timer.cancel()
        for one in self._sets:
            one.discard(self)


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
        """Wait from this moment on: an append right after this call wakes it."""
        return FetchWaiter(self._waiting, partitions, client, missing_bytes, timeout_s, self._loop)

    def wake_all(self) -> None:
        for waiter in tuple(self._waiting):
            waiter.wake()
