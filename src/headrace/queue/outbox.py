"""Messages in flight to topics: each is durable when its future is done.

The producer is idempotent and waits for `acks=all`: a retry stores nothing twice, and a message that is confirmed
survives whatever the broker's durability covers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from headrace.queue.errors import MessageNotStored
from headrace.queue.message import MessageId, id_of

Headers = Mapping[str, str | bytes | None] | Sequence[tuple[str, str | bytes | None]]

# As the client has it.
ANY_PARTITION = -1
NOW = 0

SERVE_S = 0.25
"""How long one poll for confirmations takes at most."""

FULL_S = 0.01
"""The pause when the client's buffer is full: about the time that a batch takes."""

CONNECT_S = 0.1
"""The pause after a producer is created, in which it gets its id from the broker. If a message is produced before that,
librdkafka 2.16 asks for the id up to a second later."""

_HINTS: Mapping[int, str] = {
    KafkaError._MSG_TIMED_OUT: "is the broker running? The message is stored if only the answer was lost",
    KafkaError.MSG_SIZE_TOO_LARGE: "send less, or raise the topic's max.message.bytes and config='s message.max.bytes",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "the topic was deleted; `headrace topic create` creates it",
}


class Outbox:
    def __init__(self, client_config: Mapping[str, Any], timeout_s: float) -> None:
        self._config = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "message.timeout.ms": int(timeout_s * 1000),
            **client_config,
        }
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._producer: Producer | None = None
        self._is_closed = False

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None,
        headers: Headers,
        *,
        partition: int = ANY_PARTITION,
        timestamp_ms: int = NOW,
    ) -> Future[MessageId]:
        """Raises BufferError if the client's buffer is full. The broker's response is in the future."""
        stored: Future[MessageId] = Future()
        stored.set_running_or_notify_cancel()  # it is in flight: nothing can cancel it

        def on_delivery(error: KafkaError | None, message: KafkaMessage) -> None:
            if error is None:
                stored.set_result(id_of(message))
            else:
                self._fail(stored, topic, error)

        pairs = headers.items() if isinstance(headers, Mapping) else headers
        try:
            self.started().produce(
                topic,
                value,
                key,
                headers=[*pairs],
                on_delivery=on_delivery,
                partition=partition,
                timestamp=timestamp_ms,
            )
        except KafkaException as error:
            self._fail(stored, topic, error.args[0])
        return stored

    def send_when_room(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None,
        headers: Headers,
        *,
        partition: int = ANY_PARTITION,
        timestamp_ms: int = NOW,
    ) -> Future[MessageId]:
        """`send` that waits for room: every message in the buffer is stored or fails within its timeout."""
        while True:
            try:
                return self.send(topic, value, key, headers, partition=partition, timestamp_ms=timestamp_ms)
            except BufferError:
                time.sleep(FULL_S)

    def flush(self, timeout_s: float) -> bool:
        """Whether all messages so far are stored or have failed."""
        producer = self._producer
        return producer is None or producer.flush(timeout_s) == 0

    def close(self) -> None:
        if not self.flush(self._timeout_s) and self._producer is not None:
            self._producer.purge()
            self._producer.flush(SERVE_S)
        self._is_closed = True

    @property
    def is_started(self) -> bool:
        return self._producer is not None

    def started(self) -> Producer:
        """The producer; the first call takes a moment."""
        with self._lock:
            if self._producer is None:
                self._producer = Producer(dict(self._config))
                time.sleep(CONNECT_S)
                threading.Thread(
                    target=self._serve, args=(self._producer,), name="queue-outbox", daemon=True
                ).start()
            return self._producer

    def _serve(self, producer: Producer) -> None:
        """In a thread: process confirmations."""
        while not self._is_closed and (producer is self._producer or len(producer)):
            producer.poll(SERVE_S)

    def _fail(self, stored: Future[MessageId], topic: str, error: KafkaError) -> None:
        if error.fatal():
            # An idempotent producer that lost its sequence can't continue; the next message gets a new one.
            self._producer = None
        stored.set_exception(
            MessageNotStored(
                f"a message for topic {topic} was not stored: {error.str()}",
                hint=_HINTS.get(error.code(), ""),
            )
        )
