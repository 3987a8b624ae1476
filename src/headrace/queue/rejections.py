"""The reason of a rejection, which is written before the rejection: an acknowledgement has no field for it.

Headrace's broker writes the dead letter, exactly once, with the reason that this module has written to a topic of
reasons. Apache Kafka has no dead letters: there this module writes the letter, before the rejection. A crash between
the two leaves a letter and a message that is redelivered, never a rejected message without a letter.
"""

from __future__ import annotations

import logging

from headrace.dead_letters import TOPIC_CONFIG
from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed
from headrace.queue.errors import MessageNotStored, QueueError
from headrace.queue.group_settings import GroupSettings
from headrace.queue.letters import Headers, letter_headers
from headrace.queue.message import Delivery
from headrace.queue.outbox import Outbox

logger = logging.getLogger("headrace.queue")

REASONS_TOPIC = "__headrace_rejections"

REASONS_CONFIG = {"retention.ms": "86400000"}
"""The broker reads a reason within milliseconds; after a crash within minutes."""

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
        self._writes_reasons = settings.takes_reasons and bool(settings.dead_letter_topic)
        self._letter_topic = "" if settings.has_dead_letters else dead_letter_topic
        self._topics_created: set[str] = set()

    @property
    def writes_letters(self) -> bool:
        """Whether this module writes the dead letters, because the broker can't."""
        return bool(self._letter_topic)

    def is_last_delivery(self, message: Delivery) -> bool:
        return message.delivery_count >= self._delivery_limit

    def prepare(self, message: Delivery, reason: str) -> None:
        """Write the reason or the letter, before the message is rejected; if this raises, it must not be."""
        reason = reason.encode()[:REASON_BYTES_MAX].decode(errors="ignore")

        if self._letter_topic:
            headers = letter_headers(
                message.headers,
                original=message.id,
                group=self._group,
                delivery_count=message.delivery_count,
                reason=reason or "rejected by its consumer",
            )
            self._write(self._letter_topic, message.key, message.raw.value(), headers, TOPIC_CONFIG)
        elif self._writes_reasons and reason:
            key = f"{self._group}/{message.topic}/{message.partition}/{message.offset}"
            self._write(REASONS_TOPIC, key.encode(), reason.encode(), [], REASONS_CONFIG)

    def _write(
        self, topic: str, key: bytes | None, content: bytes | None, headers: Headers, config: dict[str, str]
    ) -> None:
        self._create_topic(topic, config)
        try:
            self._outbox.send_when_room(topic, content, key, headers).result()
        except MessageNotStored as error:
            raise QueueError(
                f"the reason can't be written, so the message is not rejected: {error.message}",
                hint="release it, or reject it again",
            ) from error

    def _create_topic(self, topic: str, config: dict[str, str]) -> None:
        if topic in self._topics_created:
            return
        try:
            self._cluster.create_topic(topic, partitions=1, config=config, exist_ok=True)
        except RequestFailed as error:
            # The user may be allowed to write to the topic and not to create it. If not, writing fails.
            logger.info("topic %s was not created: %s", topic, error)
        self._topics_created.add(topic)
