"""The configs of groups (resource type GROUP): names, defaults and documentation.

Names are Kafka's where Kafka has them. `errors.deadletterqueue.*` are those of KIP-1191 (the creation of topics is the
broker's there, and a group's here); `headrace.*` are our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from headrace.broker.configs.definitions import (
    BOOLEANS,
    ConfigDefinition,
    by_name,
    choice,
    double,
    int32,
    text,
)
from headrace.broker.configs.resource_configs import ResourceConfigs
from headrace.broker.configs.share_rules import Rules
from headrace.broker.internal_topics import INTERNAL_TOPICS
from headrace.broker.rejections import RequestRejected
from headrace.durations import iso_duration_us
from headrace.log.filesystem import FileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.topic_names import check_topic_name


class OffsetReset(Struct, frozen=True, kw_only=True):
    """Where a group starts in a partition for which it has no state."""

    strategy: str
    age_ms: int = 0


def _offset_reset(text: str) -> OffsetReset:
    strategy, _, duration = text.partition(":")
    if text in ("earliest", "latest"):
        return OffsetReset(strategy=text)
    age_us = iso_duration_us(duration)
    if strategy != "by_duration" or age_us is None:
        raise ValueError("choose earliest, latest or by_duration:PnDTnHnMn.nS")
    return OffsetReset(strategy=strategy, age_ms=age_us // 1_000)


def _topic_name(text: str) -> str:
    if text:
        check_topic_name(text)
    if text in INTERNAL_TOPICS:
        raise ValueError("it is an internal topic; name another one")
    return text


DAY_MS = 86_400_000
SESSION_TIMEOUT = "share.session.timeout.ms"
HEARTBEAT_INTERVAL = "share.heartbeat.interval.ms"
LOCK_DURATION = "share.record.lock.duration.ms"
DELIVERY_LIMIT = "share.delivery.count.limit"
LOCKS_MAX = "share.partition.max.record.locks"
OFFSET_RESET = "share.auto.offset.reset"
ISOLATION = "share.isolation.level"
RENEW_ENABLE = "share.renew.acknowledge.enable"
DEAD_LETTER_TOPIC = "errors.deadletterqueue.topic.name"
DEAD_LETTER_COPY = "errors.deadletterqueue.copy.record.enable"
DEAD_LETTER_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
RETRY_BACKOFF = "headrace.share.retry.backoff.ms"
RETRY_BACKOFF_MAX = "headrace.share.retry.backoff.max.ms"
RETRY_MULTIPLIER = "headrace.share.retry.backoff.multiplier"
ORDER = "headrace.share.order"
CONSUMER_SESSION_TIMEOUT = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"


_choice = partial(choice, ignores_case=True)


def _duration(name: str, default_ms: int, minimum_ms: int, doc: str) -> ConfigDefinition:
    return int32(name, default_ms, minimum_ms, doc, maximum=DAY_MS)


GROUP_CONFIGS = by_name(
    _duration(
        CONSUMER_SESSION_TIMEOUT,
        45_000,
        1_000,
        "A member of a consumer group is removed after this time without a heartbeat.",
    ),
    _duration(
        CONSUMER_HEARTBEAT_INTERVAL,
        5_000,
        100,
        "The interval of heartbeats that members of a consumer group get.",
    ),
    _duration(
        SESSION_TIMEOUT,
        45_000,
        1_000,
        "A member of a share group is removed after this time without a heartbeat.",
    ),
    _duration(
        HEARTBEAT_INTERVAL, 5_000, 100, "The interval of heartbeats that members of a share group get."
    ),
    _duration(
        LOCK_DURATION, 30_000, 100, "How long a record is locked before it is delivered to another member."
    ),
    int32(
        DELIVERY_LIMIT,
        5,
        1,
        "How often a record is delivered before it becomes a dead letter.",
        maximum=10_000,
    ),
    int32(
        LOCKS_MAX,
        2_000,
        1,
        "How many records of a partition may be locked, or wait for their dead letter, at a time. A batch that is "
        "delivered in part may exceed that, up to ten times as many.",
        maximum=1_000_000,
    ),
    text(
        OFFSET_RESET,
        "latest",
        "Where a group starts in a topic that is new to it: earliest, latest, or by_duration:PnDTnHnMn.nS.",
        _offset_reset,
    ),
    _choice(
        ISOLATION,
        "read_uncommitted",
        {"read_uncommitted": False, "read_committed": True},
        "Whether only committed records are delivered, or those of open and aborted transactions too.",
    ),
    _choice(RENEW_ENABLE, "true", BOOLEANS, "Whether members may renew locks."),
    text(
        DEAD_LETTER_TOPIC,
        "",
        "Dead-letter topic of records that are rejected or exceed the delivery limit. Empty: they are dropped.",
        _topic_name,
    ),
    _choice(
        DEAD_LETTER_COPY,
        "true",
        BOOLEANS,
        "Whether a dead letter has the key, value and headers of its record, or only its offset. "
        "Kafka's default is false; such a letter is useless after the record is deleted.",
    ),
    _choice(
        DEAD_LETTER_CREATE,
        "true",
        BOOLEANS,
        "Whether a dead-letter topic that is missing is created. Otherwise the records stay, locked, until it is "
        "there.",
    ),
    _duration(
        RETRY_BACKOFF,
        0,
        0,
        "The back-off before the second delivery of a record that was released or whose lock timed out. Ours.",
    ),
    _duration(RETRY_BACKOFF_MAX, 60_000, 0, "The longest back-off. Ours."),
    double(
        RETRY_MULTIPLIER, 2.0, 1, 100, "The factor by which the back-off grows with every delivery. Ours."
    ),
    _choice(
        ORDER,
        "none",
        {"none": False, "key": True},
        "key: the records of a key are delivered in the order of their offsets, to one member at a time. Ours.",
    ),
)


def definition(name: str) -> ConfigDefinition:
    if name not in GROUP_CONFIGS:
        raise RequestRejected(
            ErrorCode.INVALID_CONFIG,
            f"a group has no config {name}",
            hint="describe the group's configs to see them all",
        )
    return GROUP_CONFIGS[name]


def _value(configs: Mapping[str, str], name: str) -> Any:
    config = GROUP_CONFIGS[name]
    return config.parse(configs.get(name, config.default))


class ShareConfig(Struct, frozen=True, kw_only=True):
    """The configs of a share group, parsed."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    offset_reset: OffsetReset
    is_read_committed: bool
    may_renew: bool
    dead_letter_topic: str
    copies_dead_letters: bool
    creates_dead_letter_topic: bool
    rules: Rules


def share_config(configs: Mapping[str, str]) -> ShareConfig:
    def get(name: str) -> Any:
        return _value(configs, name)

    return ShareConfig(
        session_timeout_ms=get(SESSION_TIMEOUT),
        heartbeat_interval_ms=get(HEARTBEAT_INTERVAL),
        offset_reset=get(OFFSET_RESET),
        is_read_committed=get(ISOLATION),
        may_renew=get(RENEW_ENABLE),
        dead_letter_topic=get(DEAD_LETTER_TOPIC),
        copies_dead_letters=get(DEAD_LETTER_COPY),
        creates_dead_letter_topic=get(DEAD_LETTER_CREATE),
        rules=Rules(
            lock_ms=get(LOCK_DURATION),
            delivery_count_max=get(DELIVERY_LIMIT),
            locks_max=get(LOCKS_MAX),
            has_dead_letters=bool(get(DEAD_LETTER_TOPIC)),
            backoff_ms=get(RETRY_BACKOFF),
            backoff_ms_max=get(RETRY_BACKOFF_MAX),
            backoff_multiplier=get(RETRY_MULTIPLIER),
            is_ordered=get(ORDER),
        ),
    )


class GroupConfigs(ResourceConfigs):
    def __init__(
        self, files: FileSystem, data_dir: str, *, defaults: Mapping[str, str], groups_max: int
    ) -> None:
        super().__init__(
            files, data_dir, file_name="group-configs.json", definition=definition, names_max=groups_max
        )
        self.defaults = defaults
        """The broker's defaults for groups that do not set them."""
        self._shares: dict[str, ShareConfig] = {}
        self._default_share = share_config(defaults)

    def value(self, group_id: str, name: str) -> Any:
        """One config of a group, parsed."""
        return _value({**self.defaults, **self.of(group_id)}, name)

    def share(self, group_id: str) -> ShareConfig:
        own = self.of(group_id)
        if not own:
            return self._default_share
        found = self._shares.get(group_id)
        if found is None:
            found = self._shares[group_id] = share_config({**self.defaults, **own})
        return found

    def check(self, name: str, configs: Mapping[str, str]) -> None:
        super().check(name, configs)
        for session, heartbeat in (
            (SESSION_TIMEOUT, HEARTBEAT_INTERVAL),
            (CONSUMER_SESSION_TIMEOUT, CONSUMER_HEARTBEAT_INTERVAL),
        ):
            session_ms, heartbeat_ms = _value(configs, session), _value(configs, heartbeat)
            if heartbeat_ms >= session_ms:
                raise RequestRejected(
                    ErrorCode.INVALID_CONFIG,
                    f"{heartbeat}={heartbeat_ms} is not below {session}={session_ms}",
                    hint="members would be removed between two heartbeats",
                )

    def replace(self, changes: Mapping[str, Mapping[str, str]]) -> None:
        super().replace(changes)
        for group_id in changes:
            self._shares.pop(group_id, None)
