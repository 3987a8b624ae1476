"""What the configs of a topic mean for an erasure, and how they make compaction happen soon.

Brokers never compact the active segment, and compact the others when enough of the partition is new. Both follow from
configs that any client can change, on Apache Kafka too.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka.admin import ConfigEntry, ConfigSource
from msgspec import Struct

from headrace.kafka.cluster import Cluster

HASTENING = {"min.cleanable.dirty.ratio": "0", "min.compaction.lag.ms": "0"}
"""Until the values are removed."""

ROLLING = {"segment.ms": "1"}
"""While two tombstones are written: the second one closes the segment of the first."""


class TopicConfigs(Struct, frozen=True, kw_only=True):
    policy: str
    is_archived: bool
    retention_ms: int
    segment_ms: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    overrides: dict[str, str | None]
    """of the configs that an erasure changes: the value that is set; None for the default"""

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.policy.split(",")

    def deleted_by_ms(self, record_ms: int) -> int | None:
        """When retention will have deleted a record of this time at the latest; None: never by its age.

        Its segment may get further records until `segment.ms` has passed, and is deleted `retention.ms` after its last.
        """
        if "delete" not in self.policy.split(",") or self.retention_ms < 0:
            return None
        return record_ms + self.segment_ms + self.retention_ms


def read_configs(cluster: Cluster, topic: str) -> TopicConfigs:
    entries = cluster.configs("topic", topic)
    return TopicConfigs(
        policy=",".join(sorted(filter(None, _text(entries, "cleanup.policy", "delete").split(",")))),
        is_archived=_text(entries, "remote.storage.enable", "false") == "true",
        retention_ms=int(_text(entries, "retention.ms", "-1")),
        segment_ms=int(_text(entries, "segment.ms", "0")),
        delete_retention_ms=int(_text(entries, "delete.retention.ms", "0")),
        file_delete_delay_ms=int(_text(entries, "file.delete.delay.ms", "0")),
        overrides={name: _override(entries.get(name)) for name in (*HASTENING, *ROLLING)},
    )


def _text(entries: Mapping[str, ConfigEntry], name: str, default: str) -> str:
    entry = entries.get(name)
    return default if entry is None or entry.value is None else str(entry.value)


def _override(entry: ConfigEntry | None) -> str | None:
    is_set = entry is not None and ConfigSource(entry.source) is ConfigSource.DYNAMIC_TOPIC_CONFIG
    return entry.value if entry is not None and is_set else None
