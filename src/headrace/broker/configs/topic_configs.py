"""The configs of a topic under Kafka's names: their types, defaults and documentation, and the `LogConfig` they set.

Configs of replicas are accepted, because every tool sets them, and have no effect on one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.broker.configs.definitions import (
    BOOLEANS,
    INT64_MAX,
    ConfigDefinition,
    by_name,
    choice,
    double,
    int32,
    int64,
    listed,
)
from headrace.broker.rejections import RequestRejected
from headrace.log.config import SAME_AS_RETENTION, LogConfig
from headrace.names import did_you_mean
from headrace.protocol.error_codes import ErrorCode
from headrace.records.compression import Codec


def _policies(text: str) -> frozenset[str]:
    policies = frozenset(part.strip() for part in text.split(",") if part.strip())
    if not policies <= {"compact", "delete"}:
        raise ValueError("choose compact, delete, compact,delete, or nothing to keep everything")
    return policies


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

TOPIC_CONFIGS = by_name(
    listed(
        "cleanup.policy",
        "delete",
        "delete old segments, compact to the last value of every key, both, or (empty) neither.",
        _policies,
    ),
    choice(
        "compression.type",
        "producer",
        _CODECS,
        "Codec of stored batches; producer keeps them as they were sent.",
    ),
    int32("compression.gzip.level", -1, -1, "Level if compression.type is gzip; -1 for the codec's default."),
    int32("compression.lz4.level", 9, 1, "Level if compression.type is lz4."),
    int32("compression.zstd.level", 3, -131072, "Level if compression.type is zstd."),
    int64("delete.retention.ms", 86_400_000, 0, "How long compaction keeps a tombstone."),
    int64("file.delete.delay.ms", 60_000, 0, "How long the file of a deleted segment is kept."),
    int64(
        "flush.messages", INT64_MAX, 1, "Accepted without effect: the broker's durability setting decides."
    ),
    int64("flush.ms", INT64_MAX, 0, "Accepted without effect: the broker's durability setting decides."),
    listed("follower.replication.throttled.replicas", "", _ONE_NODE),
    int32("index.interval.bytes", 4_096, 0, "Bytes of log between two index entries."),
    listed("leader.replication.throttled.replicas", "", _ONE_NODE),
    int64("max.compaction.lag.ms", INT64_MAX, 1, "A record is compacted at the latest after this time."),
    int32("max.message.bytes", 1_048_588, 0, "Largest record batch."),
    int64("message.timestamp.after.max.ms", 3_600_000, 0, "How far in the future a timestamp may be."),
    int64("message.timestamp.before.max.ms", INT64_MAX, 0, "How far in the past a timestamp may be."),
    int64(
        "local.retention.bytes",
        -2,
        -2,
        "Local size above which local copies of archived segments are deleted; -2: as retention.bytes.",
    ),
    int64(
        "local.retention.ms",
        -2,
        -2,
        "Age at which local copies of archived segments are deleted; -2: as retention.ms.",
    ),
    choice(
        "message.timestamp.type",
        "CreateTime",
        _TIMESTAMP_TYPES,
        "Which clock the timestamps of records come from.",
    ),
    double(
        "min.cleanable.dirty.ratio",
        0.5,
        0,
        1,
        "Share of the log that must be new since the last compaction for the next one to start.",
    ),
    int64("min.compaction.lag.ms", 0, 0, "A record is not compacted before this time."),
    int32("min.insync.replicas", 1, 1, _ONE_NODE),
    choice("preallocate", "false", BOOLEANS, "Accepted without effect: segments grow as they are written."),
    choice(
        "remote.log.delete.on.disable",
        "false",
        BOOLEANS,
        "Must be true for remote.storage.enable to become false: the archived segments are deleted then.",
    ),
    choice(
        "remote.storage.enable",
        "false",
        BOOLEANS,
        "Whether closed segments are archived, at the broker's archive_address.",
    ),
    int64("retention.bytes", -1, -1, "Size above which the oldest segments are deleted; -1 for no limit."),
    int64("retention.ms", 604_800_000, -1, "Age at which segments are deleted; -1 to keep them."),
    int32("segment.bytes", 1_073_741_824, 14, "Size at which a new segment starts."),
    int32("segment.index.bytes", 10_485_760, 4, "Size of an index at which a new segment starts."),
    int64("segment.jitter.ms", 0, 0, "Accepted without effect: segments roll when they are due."),
    int64("segment.ms", 604_800_000, 1, "Age at which a new segment starts."),
    choice("unclean.leader.election.enable", "false", BOOLEANS, _ONE_NODE),
)

_RENAMED_FIELDS = {
    "compression.type": "compression",
    "max.message.bytes": "batch_bytes_max",
    "message.timestamp.after.max.ms": "timestamp_after_max_ms",
    "message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "message.timestamp.type": "timestamp_type",
    "remote.storage.enable": "is_archived",
    "segment.bytes": "segment_bytes_max",
    "segment.index.bytes": "index_bytes_max",
}
# The field of LogConfig that a config sets. Those without one have no effect on one node.
_LOG_FIELDS = {
    name: field
    for name in TOPIC_CONFIGS
    if (field := _RENAMED_FIELDS.get(name, name.replace(".", "_"))) in LogConfig.__struct_fields__
}


def check_configs(overrides: Mapping[str, str]) -> None:
    """Raise `RequestRejected` for the first unknown config or invalid value."""
    for name, text in overrides.items():
        definition(name).parse(text)


def check_archive_configs(overrides: Mapping[str, str], *, was_archived: bool, can_archive: bool) -> None:
    """Raise `RequestRejected` if these configs archive a topic that can't be, or stop archiving one that must be."""
    config = log_config(overrides)
    if not config.is_archived:
        if was_archived and overrides.get("remote.log.delete.on.disable") != "true":
            raise RequestRejected(
                ErrorCode.INVALID_CONFIG,
                "remote.storage.enable can't become false while records are in the archive",
                hint="also set remote.log.delete.on.disable=true: records that only the archive has are deleted",
            )
        return
    if not can_archive:
        raise RequestRejected(
            ErrorCode.INVALID_CONFIG,
            "remote.storage.enable=true is not possible for this topic",
            hint="start the broker with archive_address; internal topics are never archived",
        )
    if config.is_compacted:
        raise RequestRejected(
            ErrorCode.INVALID_CONFIG,
            "remote.storage.enable=true is not possible on a compacted topic",
            hint="remove compact from cleanup.policy, or keep the topic local",
        )
    for unit in ("ms", "bytes"):
        local, whole = getattr(config, f"local_retention_{unit}"), getattr(config, f"retention_{unit}")
        if local != SAME_AS_RETENTION and whole >= 0 and not 0 <= local <= whole:
            raise RequestRejected(
                ErrorCode.INVALID_CONFIG,
                f"local.retention.{unit}={local} exceeds retention.{unit}={whole}",
                hint="deleted records can't be kept locally; -2 makes both the same",
            )


def definition(name: str) -> ConfigDefinition:
    if name not in TOPIC_CONFIGS:
        hint = did_you_mean(name, TOPIC_CONFIGS) or f"known: {', '.join(TOPIC_CONFIGS)}"
        raise RequestRejected(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}", hint=hint)
    return TOPIC_CONFIGS[name]


def log_config(overrides: Mapping[str, str], **bounds: int) -> LogConfig:
    """The log settings of a topic with these configs; `bounds` are the broker's own limits."""
    values: dict[str, Any] = dict(bounds)
    for name, field in _LOG_FIELDS.items():
        config = TOPIC_CONFIGS[name]
        values[field] = config.parse(overrides.get(name, config.default))
    level = overrides.get(f"compression.{overrides.get('compression.type', 'producer')}.level")
    if level is not None:
        values["compression_level"] = int(level)
    return LogConfig(**values)
