"""The settings of a share group, which the broker keeps: reading them, and setting those that a queue needs.

A setting that is set already is never changed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from msgspec import Struct

from headrace.kafka.cluster import Cluster
from headrace.kafka.errors import RequestFailed

logger = logging.getLogger("headrace.queue")

OFFSET_RESET = "share.auto.offset.reset"
LOCK_DURATION = "share.record.lock.duration.ms"
DELIVERY_LIMIT = "share.delivery.count.limit"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
DEAD_LETTER_COPY = "errors.deadletterqueue.copy.record.enable"
# Only Headrace's broker has it, and so only a broker that has it reads reasons.
RETRY_BACKOFF = "headrace.share.retry.backoff.ms"
ORDER = "headrace.share.order"
ORDER_BY_KEY = "key"

VISIBLE_TIMEOUT_S = 10.0
"""Apache Kafka's nodes apply a change a moment after it was accepted; a group that joins earlier starts elsewhere."""


class GroupSettings(Struct, frozen=True, kw_only=True):
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
    def is_ordered(self) -> bool:
        """Whether the broker delivers the messages of a key in order, to one worker at a time."""
        return self.values.get(ORDER) == ORDER_BY_KEY

    @property
    def takes_reasons(self) -> bool:
        return RETRY_BACKOFF in self.values


def wanted_settings(*, start: str, dead_letter_topic: str, is_ordered: bool) -> dict[str, str]:
    """What a queue sets for a new group."""
    wanted = {OFFSET_RESET: start}
    if dead_letter_topic:
        wanted |= {DEAD_LETTER_TOPIC: dead_letter_topic, DEAD_LETTER_COPY: "true"}
    if is_ordered:
        wanted[ORDER] = ORDER_BY_KEY
    return wanted


def read_settings(cluster: Cluster, group: str) -> GroupSettings:
    entries = cluster.configs("group", group).values()
    return GroupSettings(
        values={each.name: each.value or "" for each in entries},
        given=frozenset(each.name for each in entries if not each.is_default),
    )


def ensure_settings(cluster: Cluster, group: str, wanted: Mapping[str, str]) -> GroupSettings:
    """Set those that are not set yet and that the broker knows; the settings in force after that.

    Without permission to change them, the group keeps its settings.
    """
    settings = read_settings(cluster, group)
    missing = {
        name: text
        for name, text in wanted.items()
        if name in settings.values and name not in settings.given and settings.values[name] != text
    }
    if not missing:
        return settings
    try:
        cluster.alter_configs("group", group, missing)
    except RequestFailed as error:
        logger.warning("group %s keeps its settings: %s", group, error)
        return settings
    deadline_s = time.monotonic() + VISIBLE_TIMEOUT_S
    while time.monotonic() < deadline_s:
        settings = read_settings(cluster, group)
        if all(settings.values.get(name) == text for name, text in missing.items()):
            break
        time.sleep(0.05)
    return settings
