"""The settings of a share group, which the broker keeps: reading them, and setting what a queue needs.

What is set already always stays.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from headrace.queue.errors import QueueUnusable
from headrace.values import value

logger = logging.getLogger("headrace.queue")

OFFSET_RESET = "share.auto.offset.reset"
LOCK_DURATION = "share.record.lock.duration.ms"
DELIVERY_LIMIT = "share.delivery.count.limit"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
DEAD_LETTER_COPY = "errors.deadletterqueue.copy.record.enable"
# Only Headrace's broker has it, and so only a broker that has it reads reasons.
RETRY_BACKOFF = "headrace.share.retry.backoff.ms"

VISIBLE_TIMEOUT_S = 10.0
"""Apache Kafka's nodes learn of a change a moment after it was taken; a group that joins before begins elsewhere."""


@value
class GroupSettings:
    """What is in force for a group; `given` are the names that are set."""

    values: Mapping[str, str]
    given: frozenset[str]

    @property
    def lock_s(self) -> float:
        return int(self.values.get(LOCK_DURATION, "30000")) / 1000

    @property
    def delivery_limit(self) -> int:
        return int(self.values.get(DELIVERY_LIMIT, "5"))

    @property
    def dead_letter_topic(self) -> str:
        return self.values.get(DEAD_LETTER_TOPIC, "")

    @property
    def has_dead_letters(self) -> bool:
        """Whether the broker itself can write dead letters."""
        return DEAD_LETTER_TOPIC in self.values

    @property
    def takes_reasons(self) -> bool:
        return RETRY_BACKOFF in self.values


def read_settings(admin: AdminClient, group: str, timeout_s: float) -> GroupSettings:
    resource = ConfigResource(ResourceType.GROUP, group)
    try:
        future = admin.describe_configs([resource], request_timeout=timeout_s)[resource]
        entries = future.result(timeout_s).values()
    except (KafkaException, TimeoutError) as error:
        raise _refused(error, f"reading the settings of group {group}") from error
    return GroupSettings(
        values={each.name: each.value or "" for each in entries},
        given=frozenset(each.name for each in entries if not each.is_default),
    )


def change_settings(
    admin: AdminClient, group: str, wanted: Mapping[str, str | None], timeout_s: float
) -> None:
    """Set some settings of a group, or with None take them back to their defaults."""
    changes = [
        ConfigEntry(
            name,
            text or "",
            incremental_operation=AlterConfigOpType.DELETE if text is None else AlterConfigOpType.SET,
        )
        for name, text in wanted.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=changes)
    try:
        admin.incremental_alter_configs([resource], request_timeout=timeout_s)[resource].result(timeout_s)
    except (KafkaException, TimeoutError) as error:
        raise _refused(error, f"setting {', '.join(wanted)} of group {group}") from error


def ensure_settings(
    admin: AdminClient, group: str, wanted: Mapping[str, str], timeout_s: float
) -> GroupSettings:
    """Set what is not set yet and the broker knows; what is in force then. Without permission it goes on as it is."""
    settings = read_settings(admin, group, timeout_s)
    missing = {
        name: text
        for name, text in wanted.items()
        if name in settings.values and name not in settings.given and settings.values[name] != text
    }
    if not missing:
        return settings
    try:
        change_settings(admin, group, missing, timeout_s)
    except QueueUnusable as error:
        logger.warning("group %s keeps its settings: %s", group, error)
        return settings
    deadline_s = time.monotonic() + VISIBLE_TIMEOUT_S
    while time.monotonic() < deadline_s:
        settings = read_settings(admin, group, timeout_s)
        if all(settings.values.get(name) == text for name, text in missing.items()):
            break
        time.sleep(0.05)
    return settings


def _refused(error: Exception, doing: str) -> QueueUnusable:
    if isinstance(error, KafkaException):
        kafka_error = error.args[0]
        hint = ""
        if kafka_error.code() in (
            KafkaError._TRANSPORT,
            KafkaError._ALL_BROKERS_DOWN,
            KafkaError._TIMED_OUT,
        ):
            hint = "is the broker running, and is this its address?"
        elif kafka_error.code() in (KafkaError.INVALID_REQUEST, KafkaError.UNSUPPORTED_VERSION):
            hint = "queues need Headrace's broker, or Apache Kafka 4.2 or later"
        return QueueUnusable(f"{doing}: {kafka_error.str()}", hint=hint)
    return QueueUnusable(f"{doing}: no answer", hint="is the broker running, and is this its address?")
