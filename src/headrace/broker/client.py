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
    """The memory for requests and responses that a client may use; its connection sets the limits."""

    def may_wait(self) -> bool:
        """Whether its fetches may wait for data: not if the memory is full and it holds more than its share."""
        return True

    def response_room_bytes(self) -> int:
        """How large one more response may be; one whole batch is read unless it is 0."""
        return sys.maxsize

    def hold(self, change_bytes: int) -> None:
        """Count bytes of a response that the connection does not have yet."""


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
    when_disconnected: set[Callable[[Client], None]] = field(default_factory=set)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def disconnected(self) -> None:
        for callback in tuple(self.when_disconnected):
            callback(self)
        for waiter in tuple(self.waiters):
            waiter.wake()
