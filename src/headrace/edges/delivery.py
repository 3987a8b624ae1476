"""The producer of an edge: a bounded number of bytes in flight, and each event until the broker has reported on it.

While the broker is unavailable nothing fails: the client retries without end, in order, each record once (it is an
idempotent producer), and the queue in front of it does what the policy says.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.edges.counters import Counters
from headrace.edges.event import Entry, Fate, Reason

TAKE_BYTES = 1 << 20
"""Taken from the queue at once."""

LOOK_S = 0.05
REOPEN_S = 1.0
"""Between two producers: an error that ended one may be still there."""

_CONFIG: dict[str, Any] = {
    "acks": "all",
    "enable.idempotence": True,
    # An event waits for its broker without end; the policy bounds how many do.
    "message.timeout.ms": 0,
    "reconnect.backoff.max.ms": 1_000,
    "linger.ms": 5,
    # The same key goes to the same partition as with a Java client.
    "partitioner": "murmur2_random",
    "queue.buffering.max.messages": 10_000_000,
    "message.max.bytes": 1_000_000_000,
}

_ABOUT_THE_EVENT = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.INVALID_MSG_SIZE,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._INVALID_ARG,
    }
)
"""The broker rejects this event or its topic, now and later. After any other error it is sent again."""

_TOO_LARGE = KafkaError(
    KafkaError.MSG_SIZE_TOO_LARGE, "Message size too large: more than twice `in_flight_bytes_max`"
)
"""The client would wait for room for it without end."""

_LOG = logging.getLogger("headrace.edges.kafka")
_LOG.addHandler(logging.NullHandler())


class Queue(Protocol):
    """Where events wait for the producer: memory or disk."""

    def take(self, bytes_max: int, timeout_s: float) -> list[Entry]:
        """The next entries in order, at least one; empty if none arrives in time."""

    def settled(self, place: int) -> None:
        """The entries before this place are delivered or rejected."""

    def maintain(self) -> None:
        """Called every `LOOK_S`."""


class Delivery:
    """Two threads: one sends, one waits for the broker's reports."""

    def __init__(
        self,
        queue: Queue,
        client_config: Mapping[str, Any],
        counters: Counters,
        *,
        in_flight_bytes_max: int,
        on_problem: Callable[[str], None],
    ) -> None:
        self._queue = queue
        # The client rejects what exceeds its own bound, which counts bytes of records only.
        client_kbytes_max = max(in_flight_bytes_max // 512, 1024)
        self._config = {**client_config, **_CONFIG, "queue.buffering.max.kbytes": client_kbytes_max}
        self._event_bytes_max = client_kbytes_max * 1024
        self._counters = counters
        self._in_flight_bytes_max = in_flight_bytes_max
        self._on_problem = on_problem
        self._changed = threading.Condition()
        self._in_flight: dict[int, Entry] = {}
        self._failed: dict[int, Entry] = {}
        self._sent_count = 0
        self._sent_bytes = 0
        self._reported_bytes = 0
        self._next_place = 0
        self._has_news = False
        self._is_broken = False
        self._is_draining = False
        self._is_ended = False
        self._producer = self._open()
        self._sender = threading.Thread(target=self._send_all, name="edge sender", daemon=True)
        self._reporter = threading.Thread(target=self._wait_for_reports, name="edge reports", daemon=True)
        self._sender.start()
        self._reporter.start()

    def _open(self) -> Producer:
        return Producer(self._config, logger=_LOG)

    @property
    def in_flight_bytes(self) -> int:
        return self._sent_bytes - self._reported_bytes

    # --- the thread that sends ---

    def _send_all(self) -> None:
        while not self._is_ended:
            if self._is_broken:
                self._reopen()
            room_bytes = self._in_flight_bytes_max - self.in_flight_bytes
            if room_bytes <= 0:
                with self._changed:
                    self._changed.wait(LOOK_S)
                continue
            entries = self._queue.take(min(room_bytes, TAKE_BYTES), LOOK_S)
            first = self._register(entries)
            for number, entry in enumerate(entries, first):
                self._produce(number, entry)
            if self._is_draining and not entries and not self._is_broken:
                return

    def _register(self, entries: Sequence[Entry]) -> int:
        """The number of the first. Those that are taken count as in flight before any of them is sent."""
        with self._changed:
            first = self._sent_count
            self._in_flight.update(enumerate(entries, first))
            self._sent_count += len(entries)
            self._sent_bytes += sum(entry.memory_bytes for entry in entries)
            if entries:
                self._next_place = entries[-1].place + 1
        return first

    def _produce(self, number: int, entry: Entry) -> None:
        event = entry.event
        if len(event.value or b"") + len(event.key or b"") > self._event_bytes_max:
            self._report(number, _TOO_LARGE, None)
            return
        while not self._is_broken:
            try:
                self._producer.produce(
                    event.topic,
                    value=event.value,
                    key=event.key,
                    timestamp=entry.timestamp_ms,
                    headers=list(event.headers) or None,
                    on_delivery=functools.partial(self._report, number),
                )
            except BufferError:
                with self._changed:
                    self._changed.wait(LOOK_S)
            except KafkaException as error:
                self._report(number, error.args[0], None)
                return
            else:
                return
        self._report(number, None, None, is_sent=False)

    def _reopen(self) -> None:
        """After an error that ended the producer: send everything that has failed again, in order."""
        with self._changed:
            self._changed.wait_for(lambda: not self._in_flight or self._is_ended)
            if self._is_ended:
                return
            self._changed.wait_for(lambda: self._is_ended, REOPEN_S)
            if self._is_ended:
                return
            self._producer = self._open()
            failed, self._failed = sorted(self._failed.items()), {}
            self._in_flight.update(failed)
            self._is_broken = False
        for number, entry in failed:
            self._produce(number, entry)

    # --- the thread that gets reports ---

    def _wait_for_reports(self) -> None:
        while not self._is_ended:
            with self._changed:
                producer = self._producer
                if self._is_broken:
                    producer.purge()
            producer.poll(LOOK_S)
            with self._changed:
                if self._has_news:
                    self._has_news = False
                    self._queue.settled(self._first_unsettled())
                    self._changed.notify_all()
            self._queue.maintain()

    def _first_unsettled(self) -> int:
        """The place of the oldest event in flight, or of the next one."""
        places = [next(iter(self._in_flight.values())).place] if self._in_flight else [self._next_place]
        return min([*places, *(entry.place for entry in self._failed.values())])

    def _report(
        self, number: int, error: KafkaError | None, _message: Message | None, *, is_sent: bool = True
    ) -> None:
        is_final = is_sent and (error is None or error.code() in _ABOUT_THE_EVENT)
        with self._changed:
            entry = self._in_flight.pop(number, None)
            if entry is None:
                return  # the intake is closed: its own report was that of its end
            self._has_news = True
            if is_final:
                self._reported_bytes += entry.memory_bytes
            else:
                self._failed[number] = entry
                was_broken, self._is_broken = self._is_broken, True
        if not is_final:
            if error is not None and not was_broken:
                self._on_problem(f"sending again after an error: {error.str()}")
        elif error is None:
            self._counters.add_delivered(1)
            entry.report(Fate.DELIVERED)
        else:
            self._counters.add_dropped(Reason.REJECTED)
            entry.report(Fate.DROPPED, error.str())
            self._on_problem(f"the broker rejects events for {entry.event.topic}: {error.str()}")

    # --- the end ---

    def drain(self, timeout_s: float) -> bool:
        """Send what is in the queue; whether the broker has reported on all of it in time."""
        deadline_s = time.monotonic() + timeout_s
        self._is_draining = True
        self._sender.join(timeout_s)
        with self._changed:
            self._changed.wait_for(
                lambda: not self._in_flight and not self._failed, max(deadline_s - time.monotonic(), 0)
            )
        return not (self._sender.is_alive() or self._in_flight or self._failed)

    def close(self) -> list[Entry]:
        """End both threads; the entries on which the broker has not reported."""
        self._is_ended = True
        with self._changed:
            self._changed.notify_all()
        self._sender.join()
        self._reporter.join()
        left = [entry for _, entry in sorted({**self._in_flight, **self._failed}.items())]
        # The reports of what is purged find nothing in flight.
        self._in_flight.clear()
        self._failed.clear()
        self._producer.purge()
        self._producer.poll(0)
        return left
