"""The settings of one partition log. Defaults are Kafka's, so that a topic behaves as its user expects."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from headrace.records.compression import Codec
from headrace.records.record import BATCH_RECORDS_MAX

NO_LIMIT = -1
SAME_AS_RETENTION = -2
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
INT64_MAX = 2**63 - 1


class LogConfig(Struct, frozen=True, kw_only=True):
    segment_bytes_max: int = 1 << 30
    """Size at which a segment is closed (`segment.bytes`). Index positions are 32 bits, so 2 GiB - 1 at most."""

    segment_ms: int = 7 * DAY_MS
    """Age in record time at which a segment is closed (`segment.ms`), so that retention can get at it."""

    index_interval_bytes: int = 4096
    """Bytes of log between two index entries (`index.interval.bytes`): what a lookup may have to read."""

    index_bytes_max: int = 10 * 1024 * 1024
    """Size of an index at which its segment is closed (`segment.index.bytes`)."""

    retention_ms: int = 7 * DAY_MS
    """Age at which a closed segment is removed (`retention.ms`); -1 keeps it."""

    retention_bytes: int = NO_LIMIT
    """Size of the partition above which its oldest segments are removed (`retention.bytes`); -1 for none."""

    is_archived: bool = False
    """Closed segments are copied to the archive (`remote.storage.enable`)."""

    local_retention_ms: int = SAME_AS_RETENTION
    """Age at which the local copy of an archived segment is removed (`local.retention.ms`); -2: `retention_ms`."""

    local_retention_bytes: int = SAME_AS_RETENTION
    """Local size above which the local copies of the oldest archived segments are removed (`local.retention.bytes`)."""

    cleanup_policy: frozenset[str] = field(default_factory=lambda: frozenset({"delete"}))
    """`delete`, `compact`, both, or neither: everything is kept (`cleanup.policy`)."""

    min_cleanable_dirty_ratio: float = 0.5
    """Share of not yet compacted bytes from which compaction is worth its reads (`min.cleanable.dirty.ratio`)."""

    min_compaction_lag_ms: int = 0
    """How long a record stays uncompacted at least (`min.compaction.lag.ms`)."""

    max_compaction_lag_ms: int = INT64_MAX
    """How long a record stays uncompacted at most (`max.compaction.lag.ms`)."""

    delete_retention_ms: int = DAY_MS
    """How long a tombstone is kept after compaction, so that slow readers see it (`delete.retention.ms`)."""

    batch_bytes_max: int = 1_048_588
    """Largest batch accepted (`max.message.bytes`): 1 MiB and the 12 bytes in front of a batch."""

    batch_records_max: int = BATCH_RECORDS_MAX
    """Most records of a batch: a few compressed kilobytes can hold millions, and each of them costs time."""

    timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    """Whether timestamps are set by the producer or by the broker (`message.timestamp.type`)."""

    timestamp_before_max_ms: int = INT64_MAX
    """How far a timestamp of a producer may be in the past (`message.timestamp.before.max.ms`)."""

    timestamp_after_max_ms: int = HOUR_MS
    """How far it may be in the future (`message.timestamp.after.max.ms`): it would delay retention by time."""

    compression: Codec | Literal["producer"] = "producer"
    """Codec that batches are stored in (`compression.type`); `producer` stores them unchanged."""

    compression_level: int | None = None
    """Level for `compression`; the default of the codec if not set."""

    file_delete_delay_ms: int = 60_000
    """How long a removed segment stays on disk under another name (`file.delete.delay.ms`), for reads in progress."""

    decompressed_bytes_max: int = 64 * 1024 * 1024
    """Largest decompressed size of a batch: a small batch can expand to gigabytes."""

    producer_ids_max: int = 100_000
    """Idempotent producers kept per partition, some 500 bytes each; the longest idle ones are dropped first."""

    producer_id_expiration_ms: int = DAY_MS
    """How long an idle producer is kept (`producer.id.expiration.ms`)."""

    closed_segments_open_max: int = 8
    """Closed segments kept open (a descriptor and an index in memory each) per partition: readers rarely use more."""

    read_positions_max: int = 64
    """Positions kept where a read ended, so that the next one needs no search: one per consumer of the partition."""

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy
