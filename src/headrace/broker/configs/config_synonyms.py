"""Which setting of a Kafka broker is the default of a config of topics or groups: tools show it as a synonym.

A config that is not here has none: it is either not a setting of brokers, or one in another unit.
"""

from __future__ import annotations

_SAME = (
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "share.auto.offset.reset",
    "share.isolation.level",
    "share.renew.acknowledge.enable",
)
_OF_THE_LOG = (
    "cleanup.policy",
    "index.interval.bytes",
    "local.retention.bytes",
    "local.retention.ms",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "preallocate",
    "retention.bytes",
    "segment.bytes",
)
_OF_THE_CLEANER = ("delete.retention.ms", "max.compaction.lag.ms", "min.compaction.lag.ms")
_OF_GROUPS = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "share.delivery.count.limit",
    "share.heartbeat.interval.ms",
    "share.partition.max.record.locks",
    "share.record.lock.duration.ms",
    "share.session.timeout.ms",
)

BROKER_SYNONYMS: dict[str, str] = {
    **{name: name for name in _SAME},
    **{name: f"log.{name}" for name in _OF_THE_LOG},
    **{name: f"log.cleaner.{name}" for name in _OF_THE_CLEANER},
    **{name: f"group.{name}" for name in _OF_GROUPS},
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "max.message.bytes": "message.max.bytes",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "segment.index.bytes": "log.index.size.max.bytes",
}
