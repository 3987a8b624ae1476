"""The configs of groups (resource type GROUP): names, defaults and documentation.

Names are Kafka's where Kafka has them. `errors.deadletterqueue.*` are those of KIP-1191 (the creation of topics is the
broker's there, and a group's here); `headrace.*` are our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from headrace.broker.configs.resource_configs import ResourceConfig, ResourceConfigs
from headrace.broker.configs.share_rules import Rules
from headrace.broker.configs.topic_configs import ConfigType, InvalidConfig, whole_number
from headrace.broker.internal_topics import INTERNAL_TOPICS
from headrace.durations import iso_duration_us
from headrace.errors import HeadraceError
from headrace.log.filesystem import FileSystem
from headrace.topic_names import check_topic_name


def _number(name: str, default: int, least: int, most: int, doc: str) -> ResourceConfig:
    parse = whole_number(name, least, most)
    return ResourceConfig(name=name, type=ConfigType.INT, default=str(default), doc=doc, parse=parse)


def _choice(name: str, default: str, values: Mapping[str, Any], doc: str) -> ResourceConfig:
    def parse(text: str) -> Any:
        if text.lower() not in values:
            raise InvalidConfig(f"{name}={text} is invalid", hint=f"choose one of {', '.join(values)}")
        return values[text.lower()]

    kind = ConfigType.BOOLEAN if set(values) == {"true", "false"} else ConfigType.STRING
    return ResourceConfig(name=name, type=kind, default=default, doc=doc, parse=parse)


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
        raise InvalidConfig(
            f"share.auto.offset.reset={text} is invalid",
            hint="choose earliest, latest or by_duration:PnDTnHnMn.nS",
        )
    return OffsetReset(strategy=strategy, age_ms=age_us // 1_000)


def _multiplier(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise InvalidConfig(f"{RETRY_MULTIPLIER}={text} is not a number") from None
    if not 1 <= number <= 100:
        raise InvalidConfig(f"{RETRY_MULTIPLIER}={text} is out of range", hint="it may be 1 to 100")
    return number


def _topic_name(text: str) -> str:
    if text:
        try:
            check_topic_name(text)
        except HeadraceError as error:
            raise InvalidConfig(f"{DEAD_LETTER_TOPIC}: {error.message}", hint=error.hint) from error
    if text in INTERNAL_TOPICS:
        raise InvalidConfig(f"{DEAD_LETTER_TOPIC}: {text} is an internal topic", hint="name another topic")
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
CONSUMER_SESSION_TIMEOUT = "consumer.session.timeout.ms"
CONSUMER_HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"

_TRUTH = {"true": True, "false": False}

GROUP_CONFIGS: dict[str, ResourceConfig] = {
    config.name: config
    for config in (
        _number(
            CONSUMER_SESSION_TIMEOUT,
            45_000,
            1_000,
            DAY_MS,
            "A member of a consumer group is removed after this time without a heartbeat.",
        ),
        _number(
            CONSUMER_HEARTBEAT_INTERVAL,
            5_000,
            100,
            DAY_MS,
            "The interval of heartbeats that members of a consumer group get.",
        ),
        _number(
            SESSION_TIMEOUT,
            45_000,
            1_000,
            DAY_MS,
            "A member of a share group is removed after this time without a heartbeat.",
        ),
        _number(
            HEARTBEAT_INTERVAL,
            5_000,
            100,
            DAY_MS,
            "The interval of heartbeats that members of a share group get.",
        ),
        _number(
            LOCK_DURATION,
            30_000,
            100,
            DAY_MS,
            "How long a record is locked before it is delivered to another member.",
        ),
        _number(
            DELIVERY_LIMIT, 5, 1, 10_000, "How often a record is delivered before it becomes a dead letter."
        ),
        _number(
            LOCKS_MAX,
            2_000,
            1,
            1_000_000,
            "How many records of a partition may be locked, or wait for their dead letter, at a time. A batch that is "
            "delivered in part may exceed that, up to ten times as many.",
        ),
        ResourceConfig(
            name=OFFSET_RESET,
            type=ConfigType.STRING,
            default="latest",
            doc="Where a group starts in a topic that is new to it: earliest, latest, or by_duration:PnDTnHnMn.nS.",
            parse=_offset_reset,
        ),
        _choice(
            ISOLATION,
            "read_uncommitted",
            {"read_uncommitted": False, "read_committed": True},
            "Whether only committed records are delivered, or those of open and aborted transactions too.",
        ),
        _choice(RENEW_ENABLE, "true", _TRUTH, "Whether members may renew locks."),
        ResourceConfig(
            name=DEAD_LETTER_TOPIC,
            type=ConfigType.STRING,
            default="",
            doc="Dead-letter topic of records that are rejected or exceed the delivery limit. Empty: they are dropped.",
            parse=_topic_name,
        ),
        _choice(
            DEAD_LETTER_COPY,
            "true",
            _TRUTH,
            "Whether a dead letter has the key, value and headers of its record, or only its offset. "
            "Kafka's default is false; such a letter is useless after the record is deleted.",
        ),
        _choice(
            DEAD_LETTER_CREATE,
            "true",
            _TRUTH,
            "Whether a dead-letter topic that is missing is created. Otherwise the records stay, locked, until it is "
            "there.",
        ),
        _number(
            RETRY_BACKOFF,
            0,
            0,
            DAY_MS,
            "The back-off before the second delivery of a record that was released or whose lock timed out. Ours.",
        ),
        _number(RETRY_BACKOFF_MAX, 60_000, 0, DAY_MS, "The longest back-off. Ours."),
        ResourceConfig(
            name=RETRY_MULTIPLIER,
            type=ConfigType.DOUBLE,
            default="2.0",
            doc="The factor by which the back-off grows with every delivery. Ours.",
            parse=_multiplier,
        ),
    )
}


def definition(name: str) -> ResourceConfig:
    if name not in GROUP_CONFIGS:
        raise InvalidConfig(
            f"a group has no config {name}", hint="describe the group's configs to see them all"
        )
    return GROUP_CONFIGS[name]


def check_configs(configs: Mapping[str, str]) -> None:
    for name, text in configs.items():
        definition(name).parse(text)
    for session, heartbeat in (
        (SESSION_TIMEOUT, HEARTBEAT_INTERVAL),
        (CONSUMER_SESSION_TIMEOUT, CONSUMER_HEARTBEAT_INTERVAL),
    ):
        session_ms, heartbeat_ms = _value(configs, session), _value(configs, heartbeat)
        if heartbeat_ms >= session_ms:
            raise InvalidConfig(
                f"{heartbeat}={heartbeat_ms} is not below {session}={session_ms}",
                hint="members would be removed between two heartbeats",
            )


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
        ),
    )


class GroupConfigs(ResourceConfigs):
    def __init__(
        self, files: FileSystem, data_dir: str, *, defaults: Mapping[str, str], groups_max: int
    ) -> None:
        super().__init__(
            files, data_dir, file_name="group-configs.json", check=check_configs, names_max=groups_max
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

    def replace(self, changes: Mapping[str, Mapping[str, str]]) -> None:
        super().replace(changes)
        for group_id in changes:
            self._shares.pop(group_id, None)
