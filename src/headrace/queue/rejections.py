"""Saying why a message is rejected, before it is: an acknowledgement itself has no place for words.

Headrace's broker writes the dead letter, exactly once; it looks for the reason in a topic of reasons, where it is put
here first. Apache Kafka has no dead letters: there the letter itself is written here, before the rejection. A crash
between the two leaves a letter and a message that is delivered again, never a rejected message without a letter.
"""

from __future__ import annotations

import logging

from headrace.dead_letters import TOPIC_CONFIG
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed
from headrace.queue.errors import MessageNotStored, QueueError
from headrace.queue.group_settings import GroupSettings
from headrace.queue.letters import Headers, letter_headers
from headrace.queue.message import Message
from headrace.queue.outbox import Outbox

logger = logging.getLogger("headrace.queue")

REASONS_TOPIC = "__headrace_rejections"

REASONS_CONFIG = {"retention.ms": "86400000"}
"""A reason is used within milliseconds; after a broker's crash within minutes."""

REASON_BYTES_MAX = 8_192
"""A reason is a sentence, or a traceback; the broker keeps no more of it."""


class Rejections:
    def __init__(
        self,
        cluster: Cluster,
        outbox: Outbox,
        *,
        group: str,
        settings: GroupSettings,
        dead_letter_topic: str,
    ) -> None:
        self._cluster = cluster
        self._outbox = outbox
        self._group = group
        self._delivery_limit = settings.delivery_limit
        self._tells_reasons = settings.takes_reasons and bool(settings.dead_letter_topic)
        self._letter_topic = "" if settings.has_dead_letters else dead_letter_topic
        self._topics_made: set[str] = set()

    @property
    def writes_letters(self) -> bool:
        """Whether dead letters are written here, because the broker can't."""
        return bool(self._letter_topic)

    def is_last_delivery(self, message: Message) -> bool:
        return message.delivery_count >= self._delivery_limit

    def prepare(self, message: Message, reason: str) -> None:
        """To be called before a message is given up; raises, and then it must not be."""
        reason = reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")
        place = message.place
        if self._letter_topic:
            headers = letter_headers(
                message.headers,
                place=place,
                group=self._group,
                delivery_count=message.delivery_count,
                reason=reason or "rejected by its consumer",
            )
            self._write(self._letter_topic, message.key, message.raw.value(), headers, TOPIC_CONFIG)
        elif self._tells_reasons and reason:
            key = f"{self._group}/{place.topic}/{place.partition}/{place.offset}"
            self._write(REASONS_TOPIC, key.encode(), reason.encode(), [], REASONS_CONFIG)

    def _write(
        self, topic: str, key: bytes | None, content: bytes | None, headers: Headers, config: dict[str, str]
    ) -> None:
        self._make_topic(topic, config)
        try:
            self._outbox.send_when_room(topic, content, key, headers).result()
        except MessageNotStored as error:
            raise QueueError(
                f"the reason can't be written, so the message is not rejected: {error.message}",
                hint="release it, or try again",
            ) from error

    def _make_topic(self, topic: str, config: dict[str, str]) -> None:
        if topic in self._topics_made:
            return
        try:
            self._cluster.create_topic(topic, partitions=1, config=config, exist_ok=True)
        except RequestFailed as error:
            # The user may be allowed to write to the topic and not to create it. If not, writing fails.
            logger.info("topic %s was not created: %s", topic, error)
        self._topics_made.add(topic)
