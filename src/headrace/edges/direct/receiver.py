"""The loop of every incoming edge: messages -> packets -> streams in order -> events for the intake.

One thread, in small steps. What is ready becomes events only as fast as the intake takes them; while it has no room,
nothing is received: the buffers of the kernel or of the library fill up, and then they drop, which the numbers show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

from headrace.clock import Clock, SystemClock
from headrace.edges.direct.feed import Feed, Offered, Stream, TooManyStreams
from headrace.edges.direct.gaps import Gap, Ready
from headrace.edges.direct.packet import BadPacket, decode_packet
from headrace.edges.direct.publishing import plain_event
from headrace.edges.direct.recovery import Recovery, Unavailable
from headrace.edges.direct.resuming import Resumed
from headrace.edges.direct.settings import ReceiverSettings
from headrace.edges.direct.tally import Tally, interval_event
from headrace.edges.direct.transport import Frames, Source
from headrace.edges.event import Event, Fate, Reason
from headrace.edges.letters import garbage_letter
from headrace.edges.overload import Intake
from headrace.edges.times import WindowTime

WAIT_S = 0.05
"""A gap is declared after a wait of some 100 ms: this is how exact it is."""

EVENTS_AT_ONCE = 500
"""Events that are handed over with one offer."""

LAST_S = 1.0
"""For what has arrived when the edge is stopped. What comes later is a gap for its next run."""

TOO_MANY_STREAMS = "too many streams"


class Receiver:
    """Numbered packets, or, with `is_plain`, messages of which each is an event."""

    def __init__(
        self,
        settings: ReceiverSettings,
        intake: Intake,
        source: Source,
        *,
        recovery: Recovery | None = None,
        resumed: Mapping[int, Resumed] | None = None,
        is_plain: bool = False,
        clock: Clock | None = None,
        on_problem: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._settings = settings
        self._intake = intake
        self._source = source
        self._recovery = recovery
        self._is_plain = is_plain
        self._clock = clock or SystemClock()
        self._on_problem = on_problem
        self._problem = ""
        self.tally = Tally()
        self._unmarked = 0
        self._feed = Feed(
            settings.bounds,
            self.tally,
            streams_max=settings.streams_max,
            stream_idle_ms=settings.stream_idle_ms,
            held_bytes_max=settings.held_bytes_max,
        )
        self._writing: Iterator[Offered] = chain.from_iterable(self._resume(resumed or {}))
        self._waiting: list[Offered] = []
        self._begin_interval(self._clock.now_ms())

    def lost(self) -> dict[str, int]:
        """What was lost before the intake, for the metrics of the process."""
        return {"missing": self.tally.missing, "kernel": self.tally.kernel, **self.tally.garbage}

    def counted(self) -> dict[str, int]:
        """What became of numbered events, for the metrics of the process."""
        tally = self.tally
        return {
            "received": tally.received,
            "recovered": tally.recovered,
            "duplicates": tally.duplicates,
            "late": tally.late,
            "reordered": tally.reordered,
        }

    # --- the loop ---

    def run(self, is_stopping: Callable[[], bool]) -> None:
        """Until it is stopped. What has arrived by then is written."""
        while not is_stopping():
            self.step()
        self._end()

    def step(self, wait_s: float = WAIT_S) -> bool:
        """Hand events over, or receive what is there; whether there was anything to do."""
        if self._hand_over(wait_s):
            return True
        messages = self._source.receive(wait_s)
        dropped = self._source.dropped()
        self.tally.kernel += dropped
        self._unmarked += dropped
        now_ms = self._clock.now_ms()
        self._writing = chain.from_iterable(self._batches(messages))
        if now_ms >= self._interval_end_ms:
            self._end_interval(now_ms - now_ms % self._settings.interval_ms)
        return bool(messages)

    def _hand_over(self, wait_s: float) -> bool:
        """Whether there are events that were, or still have to be, handed over."""
        if not self._waiting:
            self._waiting = [*islice(self._writing, EVENTS_AT_ONCE)]
            if not self._waiting:
                return False
        if self._offer(self._waiting):
            self._waiting = []
        else:
            self._intake.wait_for_room(wait_s)
        return True

    def _offer(self, offered: Sequence[Offered]) -> bool:
        def on_fate(number: int, fate: Fate, _why: str) -> None:
            if fate is Fate.DROPPED:
                _event, stream, losses = offered[number]
                if stream is not None:
                    stream.drop(losses)

        return self._intake.offer([event for event, _, _ in offered], None if self._is_plain else on_fate)

    def _end(self) -> None:
        """Receive what is there, and hand everything over, for as long as the intake waits for its broker."""
        now_s = self._clock.monotonic_s()
        deadline_s = now_s + self._intake.stop_s
        # The feed itself never ends.
        while self.step(0) and self._clock.monotonic_s() < min(now_s + LAST_S, deadline_s):
            pass
        self._recovery = None
        held = self._written(self._feed.end(self._monotonic_ms()))
        self._writing = chain(self._writing, chain.from_iterable(held))
        while self._hand_over(WAIT_S) and self._clock.monotonic_s() < deadline_s:
            pass
        if left := [event for event, _, _ in [*self._waiting, *self._writing]]:
            self._intake.drop(left, Reason.STOPPED)
        self._waiting = []
        self._end_interval(self._clock.now_ms())
        self._hand_over(0)

    # --- messages ---

    def _batches(self, messages: Sequence[Frames]) -> Iterator[Sequence[Offered]]:
        """As they are taken: a gap is recovered when the events before it are handed over."""
        self.tally.messages += len(messages)
        if self._is_plain:
            self.tally.received += len(messages)
            yield [self._plain(frames) for frames in messages]
            return
        now_ms = self._monotonic_ms()
        for frames in messages:
            data = frames[-1]
            try:
                ready = self._feed.accept(decode_packet(data), now_ms, len(data))
            except BadPacket as error:
                yield self._garbage(data, error.reason)
            except TooManyStreams:
                yield self._garbage(data, TOO_MANY_STREAMS)
            else:
                yield from self._written(ready)
        yield from self._written(self._feed.expire(self._monotonic_ms()))

    def _plain(self, frames: Frames) -> Offered:
        """Without numbers, only the kernel says what is missing."""
        dropped, self._unmarked = self._unmarked, 0
        return plain_event(self._settings.topic, frames, dropped=dropped), None, 1

    def _written(self, ready: Iterable[tuple[Stream, Ready]]) -> Iterator[Sequence[Offered]]:
        for stream, each in ready:
            if isinstance(each, Gap):
                yield from self._fill(stream, each)
            else:
                self.tally.received += len(each.events)
                yield stream.events_of(each.events, self._settings.topic)

    def _fill(self, stream: Stream, gap: Gap) -> Iterator[Sequence[Offered]]:
        """Recover a gap, as far as possible; the rest is missing."""
        at, missing = gap.first, 0
        try:
            for piece in self._recovery.read(stream.stream, gap) if self._recovery else ():
                self.tally.recovered += len(piece.events)
                yield stream.events_of(piece.events, self._settings.topic)
                at, missing = piece.next, missing + piece.deleted
                if self._recovery is None:
                    break  # the edge ends
        except Unavailable as error:
            self._report(error.message)
        self._miss(stream, missing + gap.next - at)

    def _miss(self, stream: Stream, count: int) -> None:
        stream.miss(count)
        self.tally.missing += count

    def _resume(self, resumed: Mapping[int, Resumed]) -> Iterator[Sequence[Offered]]:
        """What was in flight when the last run was killed."""
        self._feed.resume({stream: each.expected for stream, each in resumed.items()})
        for number, each in resumed.items():
            stream = self._feed.stream(number)
            if self._recovery is None:
                self._miss(stream, each.lost)
                continue
            for hole in each.holes:
                yield from self._fill(stream, hole)

    def _garbage(self, data: bytes, reason: str) -> Sequence[Offered]:
        """Its dead letter, for the first of an interval."""
        self.tally.garbage[str(reason)] += 1
        if self._letters >= self._settings.letters_max:
            return ()
        self._letters += 1
        settings = self._settings
        letter = garbage_letter(
            settings.topic, settings.name, data, reason, bytes_max=settings.letter_bytes_max
        )
        return [(letter, None, 1)]

    def _monotonic_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)

    def _report(self, text: str) -> None:
        """People see a problem once until another one comes."""
        if text != self._problem:
            self._problem = text
            self._on_problem(text)

    # --- intervals ---

    def _begin_interval(self, now_ms: int) -> None:
        self._interval_start_ms = now_ms
        # Aligned, as the windows of other edges and of jobs.
        length_ms = self._settings.interval_ms
        self._interval_end_ms = now_ms - now_ms % length_ms + length_ms
        self._before = self.tally.copy()
        self._letters = 0

    def _end_interval(self, end_ms: int) -> None:
        self.tally.dropped = Counter(self._intake.count().dropped)
        settings = self._settings
        value = interval_event(
            settings.name,
            WindowTime(start_ms=self._interval_start_ms, end_ms=end_ms),
            self._before,
            self.tally,
            streams=len(self._feed),
        )
        event = Event(
            topic=settings.loss_topic,
            key=settings.name.encode(),
            value=value,
            timestamp_ms=self._interval_start_ms,
        )
        self._writing = chain(self._writing, [(event, None, 1)])
        self._begin_interval(end_ms)
