"""A connected client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct, field


class Waiting(Protocol):
    """A fetch that waits for data."""

    def wake(self) -> None: ...


class ClientMemory:
    """The memory for requests and answers that a client may use; its connection sets the limits."""

    def may_wait(self) -> bool:
        """Whether its fetches may wait for data: not if the memory is full and it holds more than its share."""
        return True

    def answer_room_bytes(self) -> int:
        """How large one more answer may be; one whole batch is read unless it is 0."""
        return sys.maxsize

    def hold(self, change_bytes: int) -> None:
        """Count bytes of an answer that the connection does not have yet."""


class Client(Struct, kw_only=True):
    """One connected client. It names its software in ApiVersions (KIP-511)."""

    host: str
    port: int
    local_host: str
    local_port: int
    software_name: str = "unknown"
    software_version: str = "unknown"
    # Its fetches that wait for data; they end when it disconnects.
    waiters: set[Waiting] = field(default_factory=set)

    memory: ClientMemory = field(default_factory=lambda: ClientMemory())

    # One of its batches at a time is inspected, so that many of them do not delay those of other clients.
    inspects: asyncio.Lock = field(default_factory=asyncio.Lock)

    # Stops reading from its connection for this many seconds.
    pause: Callable[[float], None] = field(default=lambda seconds: None)

    # Called with this client when its connection is lost, before its fetches are woken.
    when_gone: set[Callable[[Client], None]] = field(default_factory=set)

    def gone(self) -> None:
        for tell in tuple(self.when_gone):
            tell(self)
        for waiter in tuple(self.waiters):
            waiter.wake()
