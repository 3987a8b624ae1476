"""One member of a share group: confluent-kafka's ShareConsumer, and what it holds.

The client returns the next messages only once all of the last ones are acknowledged. It sends acknowledgements that are
close together in one request, in the order of the calls, and brokers reject a request whose offsets do not ascend. So
an acknowledgement after one with a higher offset waits here until the broker has answered.

The caller makes sure that only one thread at a time uses a member.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, ShareConsumer

from headrace.queue.errors import QueueUnusable, hint_of

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage

logger = logging.getLogger("headrace.queue")

SERVE_S = 0.001
"""How often answers are polled while something waits for them: about as long as a broker takes."""

_Partition = tuple[str | None, int | None]


class _Sent:
    """Acknowledgements of a partition that are in flight."""

    __slots__ = ("count", "offset_max")

    def __init__(self) -> None:
        self.count = 0
        self.offset_max = -1


class Member:
    def __init__(self, config: dict[str, Any]) -> None:
        self._consumer = ShareConsumer(config)
        self._consumer.set_acknowledgement_commit_callback(self._on_committed)
        self._topics: list[str] = []
        self._sent: dict[_Partition, _Sent] = {}
        self._waiting: dict[_Partition, list[tuple[KafkaMessage, AcknowledgeType]]] = {}
        self._is_uncommitted = False
        self._committed_at_s = float("-inf")
        self._is_closed = False
        self.held = 0
        """Messages that are not acknowledged; while there are any, no others can be polled."""
        self.lost = 0
        """Acknowledgements that the broker rejected or never received."""

    def subscribe(self, topics: Sequence[str]) -> None:
        if sorted(topics) != self._topics:
            self._topics = sorted(topics)
            self._consumer.subscribe(self._topics)

    def poll(self, timeout_s: float) -> list[KafkaMessage]:
        """The next messages."""
        assert self.held == 0
        deadline_s = time.monotonic() + timeout_s
        while self._waiting:
            self.serve()
            if self._waiting:
                if time.monotonic() > deadline_s:
                    return []
                time.sleep(SERVE_S)
        self._is_uncommitted = False  # poll sends it
        try:
            polled = list(self._consumer.poll(timeout_s))
        except KafkaException as error:
            raise _unusable(error.args[0]) from error
        messages = []
        for message in polled:
            error_of_message = message.error()
            if error_of_message is None:
                messages.append(message)
            else:
                _judge(error_of_message)
        self.held = len(messages)
        return messages

    # Acknowledging

    def acknowledge(self, message: KafkaMessage, how: AcknowledgeType) -> None:
        """Send an acknowledgement, without waiting; `serve` must be called while `has_waiting`."""
        self.held -= 1
        partition = (message.topic(), message.partition())
        sent, offset = self._sent.get(partition), message.offset()
        assert offset is not None
        if partition in self._waiting or (sent is not None and sent.offset_max > offset):
            self._waiting.setdefault(partition, []).append((message, how))
        else:
            self._send(partition, message, how)
            now_s = time.monotonic()
            if now_s > self._committed_at_s + SERVE_S:
                self._consumer.commit_async()
                self._committed_at_s = now_s
            else:
                self._is_uncommitted = True

    def acknowledge_and_wait(
        self, acknowledged: Sequence[tuple[KafkaMessage, AcknowledgeType]], timeout_s: float
    ) -> list[KafkaError | None]:
        """Send these acknowledgements, and wait for the broker's answer: its error for each, None if it took it.

        One rejected acknowledgement fails all of its partition. The caller uses either this or `acknowledge`.
        """
        self.held -= len(acknowledged)
        for message, how in sorted(acknowledged, key=lambda each: each[0].offset() or 0):
            self._consumer.acknowledge(message, how)
        try:
            answered = self._consumer.commit_sync(timeout_s)
        except KafkaException as error:
            return [error.args[0]] * len(acknowledged)
        errors: dict[_Partition, KafkaException | None] = {
            (each.topic, each.partition): error for each, error in answered.items()
        }
        return [_error_of(errors, message) for message, _ in acknowledged]

    @property
    def has_waiting(self) -> bool:
        """Whether something is not sent yet. Each request has a cost, so they are a millisecond apart."""
        return self._is_uncommitted or bool(self._waiting)

    @property
    def unconfirmed(self) -> int:
        """Acknowledgements that the broker has not answered yet."""
        in_flight = sum(each.count for each in self._sent.values())
        return in_flight + sum(len(each) for each in self._waiting.values())

    def serve(self) -> None:
        """Process the broker's answers, and send what waited for them."""
        self._consumer.commit_async()
        self._is_uncommitted = False
        self._committed_at_s = time.monotonic()
        ready = [partition for partition in self._waiting if partition not in self._sent]
        for partition in ready:
            for message, how in sorted(self._waiting.pop(partition), key=lambda each: each[0].offset() or 0):
                self._send(partition, message, how)
        if ready:
            self._consumer.commit_async()

    def flush(self, timeout_s: float) -> bool:
        """Wait until the broker has answered every acknowledgement; whether it has."""
        deadline_s = time.monotonic() + timeout_s
        while self.unconfirmed:
            self.serve()
            if time.monotonic() > deadline_s:
                return False
            time.sleep(SERVE_S)
        return True

    def close(self, timeout_s: float) -> None:
        """Send the acknowledgements. The broker releases the other messages immediately. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        self.flush(timeout_s)
        try:
            self._consumer.close()
        except KafkaException as error:
            logger.warning("a consumer did not leave its group cleanly: %s", error.args[0].str())
        self.lost += self.unconfirmed
        self._sent.clear()
        self._waiting.clear()

    def _send(self, partition: _Partition, message: KafkaMessage, how: AcknowledgeType) -> None:
        self._consumer.acknowledge(message, how)
        sent = self._sent.setdefault(partition, _Sent())
        sent.count += 1
        sent.offset_max = max(sent.offset_max, message.offset() or 0)

    def _on_committed(self, offsets: dict[Any, set[int]], error: KafkaException | None) -> None:
        count = 0
        for topic_partition, answered in offsets.items():
            partition = (topic_partition.topic, topic_partition.partition)
            sent = self._sent.get(partition)
            count += len(answered)
            if sent is not None:
                sent.count -= len(answered)
                if sent.count <= 0:
                    del self._sent[partition]
        if error is not None:
            self.lost += count
            logger.warning(
                "%d acknowledgements were rejected, their messages are delivered again: %s",
                count,
                error.args[0].str(),
            )


def _error_of(errors: dict[_Partition, KafkaException | None], message: KafkaMessage) -> KafkaError | None:
    partition = (message.topic(), message.partition())
    if partition not in errors:
        return KafkaError(KafkaError._TIMED_OUT)
    found = errors[partition]
    return None if found is None else cast("KafkaError", found.args[0])


def _judge(error: KafkaError) -> None:
    """Raise errors that last; the client retries the others."""
    if error.fatal() or error.code() in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
    ):
        raise _unusable(error)
    logger.info("%s; retrying", error.str())


def _unusable(error: KafkaError) -> QueueUnusable:
    return QueueUnusable(f"the queue can't be read: {error.str()}", hint=hint_of(error.code()))
