"""The sockets of a StatsD listener, and its windows.

One thread receives, parses and writes, in small steps: the buffer of the kernel holds a few milliseconds of a fast
sender. A window is aggregated in memory, so nothing is lost while the broker is unavailable: a window lasts until the
events of the last one are handed over.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from itertools import islice

from headrace.clock import Clock, SystemClock
from headrace.edges.connections import Connections
from headrace.edges.datagrams import BATCH, Datagrams, KernelDrops, set_receive_buffer
from headrace.edges.event import Event, Reason
from headrace.edges.letters import garbage_letter
from headrace.edges.overload import Intake
from headrace.edges.statsd.events import Loss, listener_event, metric_event
from headrace.edges.statsd.lines import Garbage
from headrace.edges.statsd.series import Window
from headrace.edges.statsd.settings import StatsdSettings
from headrace.edges.times import WindowTime

WAIT_S = 0.1
GATHER_S = 0.002
"""A pause before packets are received, if there were few the last time: many at once need half of the CPU time."""
GATHER_BUFFER_BYTES = 4 * 1024 * 1024
"""The least buffer of the kernel with which there is a pause: it holds the packets of 50 ms at 100,000 per second."""

EVENTS_AT_ONCE = 50
"""Events of a window that are encoded between two looks at the sockets: a fraction of a millisecond."""


class StatsdListener:
    """Receives on a bound UDP socket, and on a bound TCP socket if there is one."""

    def __init__(
        self,
        settings: StatsdSettings,
        intake: Intake,
        udp: socket.socket,
        tcp: socket.socket | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._intake = intake
        self._clock = clock or SystemClock()
        self._udp = udp
        self.receive_buffer_bytes = set_receive_buffer(udp, settings.receive_buffer_bytes)
        self._may_gather = self._is_calm = self.receive_buffer_bytes >= GATHER_BUFFER_BYTES
        self._datagrams = Datagrams(udp)
        self._drops = KernelDrops(udp)
        self._selector = selectors.DefaultSelector()
        self._selector.register(udp, selectors.EVENT_READ)
        self._connections = None
        if tcp is not None:
            self._connections = Connections(
                tcp,
                self._selector,
                connections_max=settings.connections_max,
                line_bytes_max=settings.bounds.line_bytes_max,
            )
        self._gauges: dict[bytes, float] = {}
        self.received = 0
        self.dropped = 0
        self.metrics = 0
        self.garbage: Counter[str] = Counter()
        self._too_long = 0
        self._writing: Iterator[Event] = iter(())
        self._waiting: deque[Event] = deque()
        self._is_written = True
        self._has_room = True
        self._begin(self._clock.now_ms())

    def _begin(self, now_ms: int) -> None:
        self._window = Window(self._settings.bounds, self._gauges, self._on_garbage)
        self._window_start_ms = now_ms
        # Aligned, so that windows of all listeners and of jobs have the same bounds.
        self._window_end_ms = now_ms - now_ms % self._settings.flush_ms + self._settings.flush_ms
        self._window_received = 0
        self._window_garbage: Counter[str] = Counter()
        self._letters: list[Event] = []

    def lost(self) -> dict[str, int]:
        """What did not become a metric, for the process' own metrics."""
        rejected = self._connections.rejected if self._connections else 0
        return {"kernel": self.dropped, "connections": rejected, **self.garbage}

    def _skipped_lines(self) -> int:
        """Lines over TCP that were too long to be kept."""
        before = self._too_long
        self._too_long = self._connections.too_long if self._connections else 0
        return self._too_long - before

    # --- the loop ---

    def run(self, is_stopping: Callable[[], bool]) -> None:
        """Until it is stopped. What has arrived by then is written, as a shorter window."""
        while not is_stopping():
            self.step()
        while self._receive(0):
            pass
        self._hand_over_all()
        self._end_window(self._clock.now_ms())
        self._hand_over_all()

    def step(self) -> None:
        """Receive what is there, or wait for it a moment; begin and continue to write a window when it is time."""
        now_ms = self._clock.now_ms()
        if self._is_written:
            self._receive(min(max((self._window_end_ms - now_ms) / 1000, 0), WAIT_S))
            if now_ms >= self._window_end_ms:
                self._end_window(now_ms - now_ms % self._settings.flush_ms)
        else:
            self._receive(0 if self._has_room else WAIT_S)
            self._hand_over()

    def _receive(self, wait_s: float) -> bool:
        """Whether anything came."""
        is_any = False
        ready = self._selector.select(wait_s)
        if ready and wait_s and self._is_calm:
            time.sleep(GATHER_S)
        for key, _ in ready:
            packets = self._packets(key.fileobj)
            if packets:
                is_any = True
                self._window_received += len(packets)
                self._window.add(packets)
        return is_any

    def _packets(self, ready: object) -> list[bytes]:
        if ready is not self._udp:
            assert self._connections is not None
            assert isinstance(ready, socket.socket)
            return self._connections.receive(ready)
        packets = found = self._datagrams.receive()
        # A few batches at once: equal lines of more datagrams are parsed once.
        while len(found) == BATCH and len(packets) < 4 * BATCH:
            found = self._datagrams.receive()
            packets += found
        self._is_calm = self._may_gather and len(packets) < BATCH
        return packets

    # --- windows ---

    def _end_window(self, end_ms: int) -> None:
        """Begin the next window, and begin to write this one."""
        window_time = WindowTime(start_ms=self._window_start_ms, end_ms=end_ms)
        loss = Loss(received=self._window_received, dropped=self._drops.new())
        if skipped := self._skipped_lines():
            self._window_garbage[Garbage.TOO_LONG] += skipped
        self.received += loss.received
        self.dropped += loss.dropped
        self.metrics += self._window.metrics
        self.garbage += self._window_garbage
        self._writing = self._events(
            self._window, window_time, loss, dict(self._window_garbage), self._letters
        )
        self._is_written = False
        self._begin(end_ms)

    def _events(
        self, window: Window, time: WindowTime, loss: Loss, garbage: dict[str, int], letters: list[Event]
    ) -> Iterator[Event]:
        topic, name, headers = self._settings.topic, self._settings.name, loss.headers
        for series in window.series():
            yield Event(
                topic=topic,
                key=series.name.encode(),
                value=metric_event(series, time, loss),
                headers=headers,
                timestamp_ms=time.start_ms,
            )
        value = listener_event(name, time, loss, metrics=window.metrics, series=len(window), garbage=garbage)
        yield Event(topic=topic, key=name.encode(), value=value, headers=headers, timestamp_ms=time.start_ms)
        yield from letters

    def _hand_over(self) -> None:
        """Hand some events of the last window to the intake."""
        if not self._waiting:
            self._waiting.extend(islice(self._writing, EVENTS_AT_ONCE))
            self._is_written = not self._waiting
        self._has_room = self._intake.offer(self._waiting)
        if self._has_room:
            self._waiting.clear()

    def _hand_over_all(self) -> None:
        """At the end, for as long as the intake waits for its broker."""
        while not self._is_written:
            self._hand_over()
            if not self._has_room and not self._intake.wait_for_room(self._intake.stop_s):
                self._intake.drop([*self._waiting, *self._writing], Reason.STOPPED)
                self._waiting.clear()

    def _on_garbage(self, line: bytes, reason: Garbage, times: int) -> None:
        self._window_garbage[reason] += times
        if len(self._letters) < self._settings.letters_max:
            self._letters.append(self._letter(line, reason))

    def _letter(self, line: bytes, reason: Garbage) -> Event:
        settings = self._settings
        return garbage_letter(
            settings.topic, settings.name, line, reason, bytes_max=settings.letter_bytes_max
        )

    def close(self) -> None:
        if self._connections is not None:
            self._connections.close()
        self._selector.close()
        self._udp.close()
