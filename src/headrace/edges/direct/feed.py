"""All streams of a receiver: packets in, what is ready out; and what to carry with the next event of each stream."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping

from headrace.edges.direct.carried import Carried, carrying
from headrace.edges.direct.gaps import Position, Ready, ReorderBounds, Step, accept, end, expire
from headrace.edges.direct.packet import NumberedEvent, Packet
from headrace.edges.direct.tally import Tally
from headrace.edges.event import Event

Offered = tuple[Event, "Stream | None", int]
"""An event, its stream, and how many events are lost if it is dropped: itself, and those whose loss it carries."""


class Stream:
    """The position of one stream, and the losses that its next event will carry."""

    def __init__(self, stream: int, start: int) -> None:
        self.stream = stream
        self.position = Position(expected=start)
        self.heard_ms = 0
        self._covered = start
        self._missing = 0
        self._dropped = 0
        self.held_bytes = 0
        self._lock = threading.Lock()

    def miss(self, count: int) -> None:
        """Numbers that neither arrived nor were recovered."""
        self._missing += count

    def drop(self, count: int) -> None:
        """Events that the intake dropped, with the losses that they carried; called from any thread."""
        with self._lock:
            self._dropped += count

    def events_of(self, events: Iterable[NumberedEvent], topic: str) -> list[Offered]:
        """The next events of the stream, each with its number and the losses before it."""
        offered: list[Offered] = []
        for event in events:
            carried = self._carried(event.number)
            offered.append((carrying(topic, event, carried), self, 1 + carried.losses))
        return offered

    def _carried(self, number: int) -> Carried:
        dropped = 0
        if self._dropped:
            with self._lock:
                dropped, self._dropped = self._dropped, 0
        covered, missing = self._covered, self._missing
        self._missing = 0
        if number >= covered:
            self._covered = number + 1
        # An event that fills an old hole accounts for itself only.
        first = min(covered, number)
        return Carried(stream=self.stream, number=number, first=first, missing=missing, dropped=dropped)


class TooManyStreams(Exception):
    """A new stream, and no stream is idle."""


class Feed:
    def __init__(
        self,
        bounds: ReorderBounds,
        tally: Tally,
        *,
        streams_max: int,
        stream_idle_ms: int,
        held_bytes_max: int,
    ) -> None:
        self._bounds = bounds
        self._tally = tally
        self._streams_max = streams_max
        self._stream_idle_ms = stream_idle_ms
        self._held_bytes_max = held_bytes_max
        self._held_bytes = 0
        self._streams: dict[int, Stream] = {}
        self._holding: set[Stream] = set()

    def __len__(self) -> int:
        return len(self._streams)

    def resume(self, positions: Mapping[int, int]) -> None:
        """Continue streams at these numbers."""
        for stream, start in positions.items():
            self._streams[stream] = Stream(stream, start)

    def stream(self, number: int) -> Stream:
        return self._streams[number]

    def accept(self, packet: Packet, now_ms: int, size: int) -> Iterable[tuple[Stream, Ready]]:
        """A packet of so many bytes. TooManyStreams if there is no room for its stream."""
        stream = self._streams.get(packet.stream)
        if stream is None:
            self._make_room(now_ms)
            stream = self._streams[packet.stream] = Stream(packet.stream, packet.first)
        stream.heard_ms = now_ms
        ready = self._take(stream, accept(stream.position, packet, now_ms, self._bounds))
        if stream.position.held:
            stream.held_bytes += size
            self._held_bytes += size
            if self._held_bytes > self._held_bytes_max:
                ready += self._take(stream, end(stream.position, now_ms, self._bounds))
        return ready

    def _make_room(self, now_ms: int) -> None:
        if len(self._streams) < self._streams_max:
            return
        oldest = min(self._streams.values(), key=lambda each: each.heard_ms)
        if now_ms - oldest.heard_ms < self._stream_idle_ms:
            raise TooManyStreams
        del self._streams[oldest.stream]
        self._release(oldest)

    def _release(self, stream: Stream) -> None:
        self._holding.discard(stream)
        self._held_bytes -= stream.held_bytes
        stream.held_bytes = 0

    def expire(self, now_ms: int) -> Iterator[tuple[Stream, Ready]]:
        """What was held for long enough."""
        for stream in [*self._holding]:
            yield from self._take(stream, expire(stream.position, now_ms, self._bounds))

    def end(self, now_ms: int) -> Iterator[tuple[Stream, Ready]]:
        """All that is held."""
        for stream in [*self._holding]:
            yield from self._take(stream, end(stream.position, now_ms, self._bounds))

    def _take(self, stream: Stream, step: Step) -> list[tuple[Stream, Ready]]:
        stream.position = step.position
        if step.position.held:
            self._holding.add(stream)
        elif stream in self._holding:
            self._release(stream)
        self._tally.duplicates += step.duplicates
        self._tally.late += step.late
        self._tally.reordered += step.reordered
        return [(stream, each) for each in step.ready]
