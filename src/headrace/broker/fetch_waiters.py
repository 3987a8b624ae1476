"""Fetches that wait for data (long polls): woken when enough bytes are appended, or after their time-out."""

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

    __slots__ = ("_missing_bytes", "_places", "_timer", "has_grown", "woken")

    def __init__(
        self,
        everyone: set[FetchWaiter],
        partitions: Sequence[Watched],
        client: Client,
        missing_bytes: int,
        woken: asyncio.Future[None],
    ) -> None:
        self._places: list[Waiters] = [
            everyone,
            client.waiters,
            *(partition.waiters for partition in partitions),
        ]
        self._missing_bytes = missing_bytes
        self._timer: asyncio.TimerHandle | None = None
        self.woken = woken
        self.has_grown = False
        """Woken because bytes were appended, and not by its time-out or by another event."""
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
        """Wait from this moment on: an append right after this call wakes it."""
        waiter = FetchWaiter(self._waiting, partitions, client, missing_bytes, self._loop.create_future())
        waiter.wake_after(timeout_s)
        return waiter

    def wake_all(self) -> None:
        for waiter in tuple(self._waiting):
            waiter.wake()
