"""Lines over TCP: each is an event.

While the intake has no room, nothing is read: the buffers of the kernel fill up, and TCP stops the senders.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from headrace.edges.connections import Connections
from headrace.edges.event import Event, Reason
from headrace.edges.overload import Intake

WAIT_S = 0.1

EVENTS_AT_ONCE = 10_000
"""After so many lines, further connections wait until these are handed over. One that sends short lines has tens of
thousands of them at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TcpSettings:
    topic: str
    line_bytes_max: int = 1_000_000
    """A topic with default configs takes a record of this size."""
    connections_max: int = 1_000
    """A connection holds one line and one piece of 64 KiB at most."""


class TcpListener:
    """Receives on a bound TCP socket."""

    def __init__(self, settings: TcpSettings, intake: Intake, listener: socket.socket) -> None:
        self._topic = settings.topic
        self._intake = intake
        self._selector = selectors.DefaultSelector()
        self.connections = Connections(
            listener,
            self._selector,
            connections_max=settings.connections_max,
            line_bytes_max=settings.line_bytes_max,
        )
        self._ready: deque[object] = deque()
        self._waiting: list[Event] = []

    def lost(self) -> dict[str, int]:
        """What did not become an event, for the metrics of the process."""
        return {"connections": self.connections.rejected, "too long": self.connections.too_long}

    def run(self, is_stopping: Callable[[], bool]) -> None:
        """Until it is stopped. Then what has arrived is read, for as long as the intake waits for its broker."""
        while not is_stopping():
            self._step(WAIT_S)
        deadline_s = time.monotonic() + self._intake.stop_s
        while self._step(0) and time.monotonic() < deadline_s:
            pass
        if self._waiting and not self._intake.put(
            self._waiting, timeout_s=max(deadline_s - time.monotonic(), 0)
        ):
            self._intake.drop(self._waiting, Reason.STOPPED)

    def _step(self, wait_s: float) -> bool:
        """Whether there was something to do."""
        if self._waiting:
            if not self._intake.offer(self._waiting):
                self._intake.wait_for_room(WAIT_S)
                return True
            self._waiting = []
        if not self._ready:
            self._ready.extend(key.fileobj for key, _ in self._selector.select(wait_s))
        is_any = bool(self._ready)
        # The events of several connections are handed over together.
        while self._ready and len(self._waiting) < EVENTS_AT_ONCE:
            ready = self._ready.popleft()
            assert isinstance(ready, socket.socket)
            self._waiting += [
                Event(topic=self._topic, value=line) for line in self.connections.receive(ready)
            ]
        return is_any

    def close(self) -> None:
        self.connections.close()
        self._selector.close()
