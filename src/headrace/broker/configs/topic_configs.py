"""The configs of a topic under Kafka's names: their types, defaults and documentation, and the `LogConfig` they make.

Configs of replicas are accepted, because every tool sets them, and have no effect on one node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Any

from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.log.config import SAME_AS_RETENTION, LogConfig
from headrace.names import did_you_mean
from headrace.records.compression import Codec

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


class ConfigType(IntEnum):
    """Numbers of the types in DescribeConfigs answers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class InvalidConfig(HeadraceError):
    """An unknown config, or an invalid value."""


class TopicConfig(Struct, frozen=True, kw_only=True):
    name: str
    type: ConfigType
    default: str
    doc: str
    parse: Callable[[str], Any]
    # The field of LogConfig that it sets; None for those without effect on one node.
    field: str | None = None


def whole_number(name: str, minimum: int, maximum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise InvalidConfig(f"{name}={text} is not a whole number") from None
        if not minimum <= value <= maximum:
            raise InvalidConfig(f"{name}={text} is out of range", hint=f"it may be {minimum} to {maximum}")
        return value

    return parse


def _one_of(name: str, values: Mapping[str, Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if text not in values:
            raise InvalidConfig(f"{name}={text} is invalid", hint=f"choose one of {', '.join(values)}")
        return values[text]

    return parse


def _ratio(name: str) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise InvalidConfig(f"{name}={text} is not a number") from None
        if not 0 <= value <= 1:
            raise InvalidConfig(f"{name}={text} is out of range", hint="it may be 0 to 1")
        return value

    return parse


def _policies(text: str) -> frozenset[str]:
    policies = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not policies <= {"compact", "delete"}:
        raise InvalidConfig(
            f"cleanup.policy={text} is invalid",
            hint="choose compact, delete, compact,delete, or nothing to keep everything",
        )
    return policies


def _int(name: str, default: int, minimum: int, doc: str, field: str | None = None) -> TopicConfig:
    parse = whole_number(name, minimum, INT32_MAX)
    return TopicConfig(
        name=name, type=ConfigType.INT, default=str(default), doc=doc, parse=parse, field=field
    )


def _long(name: str, default: int, minimum: int, doc: str, field: str | None = None) -> TopicConfig:
    parse = whole_number(name, minimum, INT64_MAX)
    return TopicConfig(
        name=name, type=ConfigType.LONG, default=str(default), doc=doc, parse=parse, field=field
    )


def _choice(
    name: str, default: str, values: Mapping[str, Any], doc: str, field: str | None = None
) -> TopicConfig:
    return TopicConfig(
        name=name,
        type=ConfigType.BOOLEAN if set(values) == {"true", "false"} else ConfigType.STRING,
        default=default,
        doc=doc,
        parse=_one_of(name, values),
        field=field,
    )


_BOOLEANS = {"true": True, "false": False}
_CODECS: dict[str, Any] = {
    "producer": "producer",
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
_TIMESTAMP_TYPES = {"CreateTime": "CreateTime", "LogAppendTime": "LogAppendTime"}
_ONE_NODE = "Accepted because tools set it; one node has no replicas."

TOPIC_CONFIGS: dict[str, TopicConfig] = {
    config.name: config
    for config in (
        TopicConfig(
            name="cleanup.policy",
            type=ConfigType.LIST,
            default="delete",
            doc="delete old segments, compact to the last value of every key, both, or (empty) neither.",
            parse=_policies,
            field="cleanup_policy",
        ),
        _choice(
            "compression.type",
            "producer",
            _CODECS,
            "Codec of stored batches; producer keeps them as they were sent.",
            "compression",
        ),
        _int(
            "compression.gzip.level",
            -1,
            -1,
            "Level if compression.type is gzip; -1 for the codec's default.",
        ),
        _int("compression.lz4.level", 9, 1, "Level if compression.type is lz4."),
        _int("compression.zstd.level", 3, -131072, "Level if compression.type is zstd."),
        _long(
            "delete.retention.ms",
            86_400_000,
            0,
            "How long compaction keeps a tombstone.",
            "delete_retention_ms",
        ),
        _long(
            "file.delete.delay.ms",
            60_000,
            0,
            "How long the file of a deleted segment is kept.",
            "file_delete_delay_ms",
        ),
        _long(
            "flush.messages",
            INT64_MAX,
            1,
            "Accepted without effect: the broker's durability setting decides.",
        ),
        _long("flush.ms", INT64_MAX, 0, "Accepted without effect: the broker's durability setting decides."),
        TopicConfig(
            name="follower.replication.throttled.replicas",
            type=ConfigType.LIST,
            default="",
            doc=_ONE_NODE,
            parse=str,
        ),
        _int(
            "index.interval.bytes",
            4_096,
            0,
            "Bytes of log between two index entries.",
            "index_interval_bytes",
        ),
        TopicConfig(
            name="leader.replication.throttled.replicas",
            type=ConfigType.LIST,
            default="",
            doc=_ONE_NODE,
            parse=str,
        ),
        _long(
            "max.compaction.lag.ms",
            INT64_MAX,
            1,
            "A record is compacted at the latest after this time.",
            "max_compaction_lag_ms",
        ),
        _int("max.message.bytes", 1_048_588, 0, "Largest record batch.", "batch_bytes_max"),
        _long(
            "message.timestamp.after.max.ms",
            3_600_000,
            0,
            "How far in the future a timestamp may be.",
            "timestamp_after_max_ms",
        ),
        _long(
            "message.timestamp.before.max.ms",
            INT64_MAX,
            0,
            "How far in the past a timestamp may be.",
            "timestamp_before_max_ms",
        ),
        _long(
            "local.retention.bytes",
            -2,
            -2,
            "Local size above which local copies of archived segments are deleted; -2: as retention.bytes.",
            "local_retention_bytes",
        ),
        _long(
            "local.retention.ms",
            -2,
            -2,
            "Age at which local copies of archived segments are deleted; -2: as retention.ms.",
            "local_retention_ms",
        ),
        _choice(
            "message.timestamp.type",
            "CreateTime",
            _TIMESTAMP_TYPES,
            "Which clock the timestamps of records come from.",
            "timestamp_type",
        ),
        TopicConfig(
            name="min.cleanable.dirty.ratio",
            type=ConfigType.DOUBLE,
            default="0.5",
            doc="Share of the log that must be new since the last compaction for the next one to start.",
            parse=_ratio("min.cleanable.dirty.ratio"),
            field="min_cleanable_dirty_ratio",
        ),
        _long(
            "min.compaction.lag.ms",
            0,
            0,
            "A record is not compacted before this time.",
            "min_compaction_lag_ms",
        ),
        _int("min.insync.replicas", 1, 1, _ONE_NODE),
        _choice(
            "preallocate", "false", _BOOLEANS, "Accepted without effect: segments grow as they are written."
        ),
        _choice(
            "remote.log.delete.on.disable",
            "false",
            _BOOLEANS,
            "Must be true for remote.storage.enable to become false: the archived segments are deleted then.",
        ),
        _choice(
            "remote.storage.enable",
            "false",
            _BOOLEANS,
            "Whether closed segments are archived, at the broker's archive_address.",
            "is_archived",
        ),
        _long(
            "retention.bytes",
            -1,
            -1,
            "Size above which the oldest segments are deleted; -1 for no limit.",
            "retention_bytes",
        ),
        _long(
            "retention.ms",
            604_800_000,
            -1,
            "Age at which segments are deleted; -1 to keep them.",
            "retention_ms",
        ),
        _int("segment.bytes", 1_073_741_824, 14, "Size at which a new segment starts.", "segment_bytes_max"),
        _int(
            "segment.index.bytes",
            10_485_760,
            4,
            "Size of an index at which a new segment starts.",
            "index_bytes_max",
        ),
        _long("segment.jitter.ms", 0, 0, "Accepted without effect: segments roll when they are due."),
        _long("segment.ms", 604_800_000, 1, "Age at which a new segment starts.", "segment_ms"),
        _choice("unclean.leader.election.enable", "false", _BOOLEANS, _ONE_NODE),
    )
}


def check_configs(overrides: Mapping[str, str]) -> None:
    """Raise `InvalidConfig` for the first unknown config or invalid value."""
    for name, text in overrides.items():
        definition(name).parse(text)


def check_archive_configs(overrides: Mapping[str, str], *, was_archived: bool, can_archive: bool) -> None:
    """Raise `InvalidConfig` if these configs archive a topic that can't be, or stop archiving one that must be."""
    config = log_config(overrides)
    if not config.is_archived:
        if was_archived and overrides.get("remote.log.delete.on.disable") != "true":
            raise InvalidConfig(
                "remote.storage.enable can't become false while records are in the archive",
                hint="also set remote.log.delete.on.disable=true: records that only the archive has are deleted",
            )
        return
    if not can_archive:
        raise InvalidConfig(
            "remote.storage.enable=true is not possible for this topic",
            hint="start the broker with archive_address; internal topics are never archived",
        )
    if config.is_compacted:
        raise InvalidConfig(
            "remote.storage.enable=true is not possible on a compacted topic",
            hint="remove compact from cleanup.policy, or keep the topic local",
        )
    for unit in ("ms", "bytes"):
        local, whole = getattr(config, f"local_retention_{unit}"), getattr(config, f"retention_{unit}")
        if local != SAME_AS_RETENTION and whole >= 0 and not 0 <= local <= whole:
            raise InvalidConfig(
                f"local.retention.{unit}={local} exceeds retention.{unit}={whole}",
                hint="deleted records can't be kept locally; -2 makes both the same",
            )


def definition(name: str) -> TopicConfig:
    if name not in TOPIC_CONFIGS:
        hint = did_you_mean(name, TOPIC_CONFIGS) or f"known: {', '.join(TOPIC_CONFIGS)}"
        raise InvalidConfig(f"Unknown topic config name: {name}", hint=hint)
    return TOPIC_CONFIGS[name]


def log_config(overrides: Mapping[str, str], **bounds: int) -> LogConfig:
    """The log settings of a topic with these configs; `bounds` are the broker's own limits."""
    values: dict[str, Any] = dict(bounds)
    for config in TOPIC_CONFIGS.values():
        if config.field is not None:
            values[config.field] = config.parse(overrides.get(config.name, config.default))
    level = overrides.get(f"compression.{overrides.get('compression.type', 'producer')}.level")
    if level is not None:
        values["compression_level"] = int(level)
    return LogConfig(**values)
