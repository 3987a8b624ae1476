"""What the broker knows of the other end of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.fetch_waiters import FetchWaiter


@dataclass(slots=True, kw_only=True)
class Client:
    """One connected client. Its software is told by the client itself, in ApiVersions (KIP-511)."""

    host: str
    port: int
    local_host: str
    local_port: int
    software_name: str = "unknown"
    software_version: str = "unknown"
    # Its fetches that wait for data; nobody waits for a client that is gone.
    waiters: set[FetchWaiter] = field(default_factory=set)

    # One of its batches at a time is inspected: many of them do not keep those of others waiting.
    inspects: asyncio.Lock = field(default_factory=asyncio.Lock)

    # Called with this client when its connection is lost, before its fetches are woken.
    when_gone: set[Callable[[Client], None]] = field(default_factory=set)

    def gone(self) -> None:
        for tell in tuple(self.when_gone):
            tell(self)
        for waiter in tuple(self.waiters):
            waiter.wake()
