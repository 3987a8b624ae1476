"""One member of a share group: confluent-kafka's ShareConsumer, and what it holds.

The client hands out the next messages only when all of the last ones are settled. Its caller makes sure that only one
thread at a time is inside.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import AcknowledgeType, KafkaError, KafkaException, ShareConsumer

from headrace.queue.errors import QueueUnusable

if TYPE_CHECKING:
    from confluent_kafka import Message as KafkaMessage

logger = logging.getLogger("headrace.queue")


class Member:
    def __init__(self, config: dict[str, Any]) -> None:
        self._consumer = ShareConsumer(config)
        self._consumer.set_acknowledgement_commit_callback(self._on_committed)
        self._topics: list[str] = []
        self.held = 0
        """Messages that are not settled; as long as there are some, no others can be polled."""
        self.unconfirmed = 0
        """Acknowledgements that the broker has not answered yet."""
        self.lost = 0
        """Acknowledgements that the broker refused, or that never reached it."""

    def subscribe(self, topics: Sequence[str]) -> None:
        if sorted(topics) != self._topics:
            self._topics = sorted(topics)
            self._consumer.subscribe(self._topics)

    def poll(self, timeout_s: float) -> list[KafkaMessage]:
        """The next messages; also sends what was acknowledged before."""
        assert self.held == 0
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

    def acknowledge(self, message: KafkaMessage, how: AcknowledgeType) -> None:
        self._consumer.acknowledge(message, how)
        self.held -= 1
        self.unconfirmed += 1

    def send(self) -> None:
        """Tell the broker what was acknowledged, without waiting. Calls that come close together become one request."""
        self._consumer.commit_async()

    def send_and_wait(self, timeout_s: float) -> None:
        # It waits for what it sends itself, not for what is on its way already; it serves the answers of that.
        self._consumer.commit_sync(timeout_s)

    def close(self) -> None:
        """Send what is acknowledged; what is not goes back to the others at once."""
        try:
            self._consumer.close()
        except KafkaException as error:
            logger.warning("a consumer did not leave its group in order: %s", error.args[0].str())
        self.lost += self.unconfirmed
        self.unconfirmed = 0

    def _on_committed(self, offsets: dict[Any, set[int]], error: KafkaException | None) -> None:
        count = sum(len(each) for each in offsets.values())
        self.unconfirmed -= count
        if error is not None:
            self.lost += count
            logger.warning(
                "%d acknowledgements were refused, their messages are delivered again: %s",
                count,
                error.args[0].str(),
            )


def _judge(error: KafkaError) -> None:
    """Errors that pass by themselves are the client's to retry; the others are the user's."""
    if error.fatal() or error.code() in (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
    ):
        raise _unusable(error)
    logger.info("%s; trying again", error.str())


def _unusable(error: KafkaError) -> QueueUnusable:
    hint = ""
    if error.code() in (KafkaError.UNSUPPORTED_VERSION, KafkaError._UNSUPPORTED_FEATURE):
        hint = "queues need Headrace's broker, or Apache Kafka 4.2 or later with share.version 1"
    return QueueUnusable(f"the queue can't be read: {error.str()}", hint=hint)
