"""The intake of an edge: what happens when events arrive faster than the broker takes them, or while it is unavailable.

    with Intake(cluster.client_config(), edge_settings(overload="drop-oldest"), name="sensors") as intake:
        intake.offer([Event(topic="readings", value=b"21.5")])

drop-newest, drop-oldest   events wait in memory; when it is full, some are dropped and counted
block                      events wait in memory; when it is full, `offer` takes none, and the edge stops reading
buffer                     events wait on disk, and survive `kill -9` and a restart; a full disk blocks

An event is delivered once the broker has acknowledged it. Threads use `offer`, `put` and `wait_for_room`. Event loops
use `offer`, which does not wait for the broker, and `on_room`, or both in one: `send`.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from headrace.clock import Clock, SystemClock
from headrace.edges.counters import Count, Counters
from headrace.edges.delivery import Delivery
from headrace.edges.event import Entry, Event, Fate, OnFate, Reason
from headrace.edges.settings import EdgeSettings
from headrace.edges.spool import Spool
from headrace.edges.waiting import WaitingEvents
from headrace.errors import HeadraceError
from headrace.log.filesystem import DiskFileSystem, FileSystem
from headrace.topic_names import check_topic_name

RETRY_AFTER_S = 1
"""When a sender over HTTP may try again, if there is no room."""


class Overloaded(HeadraceError):
    """There is no room: the sender should try again after `retry_after_s`."""

    retry_after_s = RETRY_AFTER_S


class Sent(Struct, frozen=True, kw_only=True):
    """What became of an event."""

    fate: Fate
    why: str = ""
    """it was dropped"""


class Intake:
    """Takes events from any thread and delivers them in order."""

    def __init__(
        self,
        client_config: Mapping[str, Any],
        settings: EdgeSettings,
        *,
        name: str,
        clock: Clock | None = None,
        files: FileSystem | None = None,
        on_problem: Callable[[str], None] = lambda _text: None,
        on_left: Callable[[Event], None] | None = None,
        marks_drops: bool = True,
    ) -> None:
        """`name` is that of the edge, and of its buffer on disk. `on_problem` gets texts for people. `on_left` gets
        each event that an earlier run has left in the buffer, with its time, before any is delivered. `marks_drops`:
        an event has the header `edge.dropped` if the policy dropped events of its topic before it; not for edges that
        report their losses themselves, or whose senders send again."""
        check_topic_name(name)
        self._clock = clock or SystemClock()
        self._counters = Counters()
        self._on_problem = on_problem
        self._problem = ""
        self._queue = self._make_queue(settings, name, files or DiskFileSystem(), marks_drops=marks_drops)
        if on_left is not None and isinstance(self._queue, Spool):
            for entry in self._queue.left():
                on_left(replace(entry.event, timestamp_ms=entry.timestamp_ms))
        self._delivery = Delivery(
            self._queue,
            client_config,
            self._counters,
            in_flight_bytes_max=settings.in_flight_bytes_max,
            on_problem=self._report_problem,
        )
        self.stop_s = settings.stop_s
        self._is_closed = False

    def _make_queue(
        self, settings: EdgeSettings, name: str, files: FileSystem, *, marks_drops: bool
    ) -> WaitingEvents | Spool:
        if settings.overload != "buffer":
            return WaitingEvents(
                settings.overload,
                bytes_max=settings.memory_bytes_max,
                on_taken=self._counters.add_received,
                on_dropped=self._drop,
                marks_drops=marks_drops,
            )
        folder = Path(settings.data_dir) / "edges" / name
        spool = Spool(
            folder,
            bytes_max=settings.buffer_bytes_max,
            on_taken=self._counters.add_received,
            files=files,
            clock=self._clock,
        )
        self._counters.add_replayed(spool.replayed)
        return spool

    # --- events ---

    def offer(self, events: Sequence[Event], on_fate: OnFate | None = None) -> bool:
        """Whether the events were taken: all of them, or none because there is no room. It never waits for the broker.

        `on_fate` is called once for each.
        """
        assert not self._is_closed, "the intake is closed"
        if not events:
            return True
        now_ms = self._clock.now_ms()
        entries = [
            Entry(
                event=event,
                memory_bytes=event.memory_bytes,
                timestamp_ms=event.timestamp_ms or now_ms,
                number=number,
                on_fate=on_fate,
            )
            for number, event in enumerate(events)
        ]
        if self._queue.offer(entries):
            return True
        self._counters.add_pushed_back()
        if isinstance(self._queue, Spool) and self._queue.storage_error:
            self._report_problem(f"the buffer takes no events: {self._queue.storage_error}")
        return False

    def put(self, events: Sequence[Event], *, timeout_s: float, on_fate: OnFate | None = None) -> bool:
        """As `offer`, but wait for room; whether there was some in time."""
        deadline_s = time.monotonic() + timeout_s
        while not self.offer(events, on_fate):
            if not self.wait_for_room(deadline_s - time.monotonic()):
                return False
        return True

    def drop(self, events: Sequence[Event], reason: Reason) -> None:
        """Count events for which there was no room, and which cannot wait."""
        self._counters.add_received(len(events))
        self._counters.add_dropped(reason, len(events))

    def wait_for_room(self, timeout_s: float) -> bool:
        """After an offer that was not taken: whether there is room in time."""
        return self._queue.room.wait(max(timeout_s, 0))

    def on_room(self, callback: Callable[[], None]) -> None:
        """Call the function once when there is room, immediately or from another thread."""
        self._queue.room.call_once(callback)

    async def send(self, events: Sequence[Event]) -> list[Sent]:
        """What became of each event: delivered, buffered or dropped. Overloaded if there is no room for them."""
        if not events:
            return []
        sending = _Sending(len(events))
        if not self.offer(events, sending.on_fate):
            raise Overloaded(
                "events arrive faster than the broker takes them", hint=f"try again after {RETRY_AFTER_S} s"
            )
        return await sending.all

    # --- counting and ending ---

    def count(self) -> Count:
        return self._counters.count(
            memory_bytes=self._queue.memory_bytes + self._delivery.in_flight_bytes,
            buffered_bytes=self._queue.buffered_bytes,
        )

    def _drop(self, entry: Entry, reason: Reason) -> None:
        self._counters.add_dropped(reason)
        entry.report(Fate.DROPPED, reason)

    def _report_problem(self, text: str) -> None:
        """A problem may come with each event: people see it once until another one comes."""
        if text != self._problem:
            self._problem = text
            self._on_problem(text)

    def close(self) -> Count:
        """Deliver what is left, for `stop_s` at most. The rest is dropped and counted, or stays in the buffer."""
        if not self._is_closed:
            self._is_closed = True
            self._delivery.drain(self.stop_s)
            left = self._delivery.close()
            if isinstance(self._queue, WaitingEvents):
                for entry in [*left, *self._queue.close()]:
                    self._drop(entry, Reason.STOPPED)
            else:
                self._queue.close()
        return self.count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class _Sending:
    """Collects what became of the events of one offer, for an event loop."""

    def __init__(self, count: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.all: asyncio.Future[list[Sent]] = self._loop.create_future()
        self._sent = [Sent(fate=Fate.DROPPED)] * count
        self._left = count

    def on_fate(self, number: int, fate: Fate, why: str) -> None:
        self._sent[number] = Sent(fate=fate, why=why)
        # Several threads report: the loop counts.
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
            self._loop.call_soon_threadsafe(self._arrive)

    def _arrive(self) -> None:
        self._left -= 1
        if self._left == 0 and not self.all.done():
            self.all.set_result(self._sent)
