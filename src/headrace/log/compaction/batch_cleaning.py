"""What compaction does with one batch: keep it unchanged, rewrite it with fewer records, empty it, or remove it.

A tombstone is kept for `delete.retention.ms`, so that readers see it. That time starts when the cleaner first reads it,
and is written into the batch: attribute bit 6, with the delete horizon as the base timestamp.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from headrace.log.compaction.compacted_transactions import Fate
from headrace.log.compaction.offset_map import OffsetMap, decode_spans
from headrace.log.config import LogConfig
from headrace.records.batch import (
    CODEC_BITS,
    DELETE_HORIZON_BIT,
    BatchHeader,
    TimestampType,
    pack_batch,
    read_header,
)
from headrace.records.compression import compress
from headrace.records.record import RecordSpan
from headrace.records.varint import append_varint


class CleaningRules(Struct, frozen=True, kw_only=True):
    """What applies to every batch of a pass."""

    offset_map: OffsetMap
    now_ms: int
    config: LogConfig

    @property
    def delete_horizon_ms(self) -> int:
        return self.now_ms + self.config.delete_retention_ms


def clean_batch(
    batch: bytes,
    rules: CleaningRules,
    fate: Fate = Fate.ORDINARY,
    *,
    keep_if_empty: bool,
    keep_tombstones: bool,
) -> bytes | None:
    """What replaces the batch: itself if nothing changes, None if nothing is left.

    Raises InvalidBatch if it cannot be decoded.
    `keep_if_empty`: a batch that loses all its records is kept as a header, because its sequence numbers or its
    offsets are needed. `keep_tombstones`: none may be removed, whatever its age, because a value that it deletes may
    still be in a batch that cannot be decoded.
    """
    header = read_header(batch)
    if header.base_offset > rules.offset_map.latest_offset:
        return batch
    if header.record_count == 0:
        return batch if keep_if_empty else None
    if header.is_control:
        is_needed = fate is not Fate.ENDS_NOTHING
        return _clean_marker(batch, header, rules, keep_if_empty=keep_if_empty, is_needed=is_needed)
    if fate is Fate.ABORTED:
        return _emptied(header, keep_if_empty=keep_if_empty)
    section, spans = decode_spans(batch, header, rules.config)
    drops_tombstones = not keep_tombstones and _horizon_has_passed(header, rules.now_ms)
    kept = [span for span in spans if _survives(span, header, rules.offset_map, drops_tombstones)]
    if not kept:
        return _emptied(header, keep_if_empty=keep_if_empty)
    has_tombstone = any(span.value_bytes < 0 for span in kept)
    if has_tombstone and not header.has_delete_horizon:
        return _with_delete_horizon(header, section, kept, rules.delete_horizon_ms)
    if len(kept) == header.record_count:
        return batch
    # Base offset and base timestamp do not change, so that the bytes of every record stay valid.
    return _pack(header, b"".join(section[span.start : span.end] for span in kept), kept)


def _clean_marker(
    batch: bytes, header: BatchHeader, rules: CleaningRules, *, keep_if_empty: bool, is_needed: bool
) -> bytes | None:
    """A marker is kept like a tombstone, from the time when no record of its transaction is left."""
    if is_needed or (header.has_delete_horizon and not _horizon_has_passed(header, rules.now_ms)):
        return batch
    if header.has_delete_horizon:
        return _emptied(header, keep_if_empty=keep_if_empty)
    section, spans = decode_spans(batch, header, rules.config)
    return _with_delete_horizon(header, section, spans, rules.delete_horizon_ms)


def _horizon_has_passed(header: BatchHeader, now_ms: int) -> bool:
    horizon_ms = header.delete_horizon_ms
    return horizon_ms is not None and horizon_ms <= now_ms


def _survives(span: RecordSpan, header: BatchHeader, offset_map: OffsetMap, drops_tombstones: bool) -> bool:
    if span.key is None:
        return False  # written before the topic was compacted: no later record can replace it
    if offset_map.is_superseded(span.key, header.base_offset + span.offset_delta):
        return False
    return span.value_bytes >= 0 or not drops_tombstones


def _with_delete_horizon(
    header: BatchHeader, section: bytes, kept: Sequence[RecordSpan], delete_horizon_ms: int
) -> bytes:
    """The kept records with their timestamps counted from the horizon instead of the old base timestamp."""
    shift_ms = header.base_timestamp_ms - delete_horizon_ms
    rebased = bytearray()
    for span in kept:
        body = bytearray(section[span.timestamp_start - 1 : span.timestamp_start])  # the attributes
        append_varint(body, span.timestamp_delta_ms + shift_ms)
        body += section[span.offset_start : span.end]
        append_varint(rebased, len(body))
        rebased += body
    marked = replace(
        header, attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp_ms=delete_horizon_ms
    )
    return _pack(marked, bytes(rebased), kept, base_timestamp_ms=header.base_timestamp_ms)


def _pack(
    header: BatchHeader, section: bytes, kept: Sequence[RecordSpan], *, base_timestamp_ms: int | None = None
) -> bytes:
    """A batch of the kept records, with the base offset, last offset and sequence of the original."""
    if header.timestamp_type is TimestampType.CREATE_TIME:
        # The spans' deltas count from the base timestamp that they were read with.
        base_ms = header.base_timestamp_ms if base_timestamp_ms is None else base_timestamp_ms
        header = replace(header, max_timestamp_ms=base_ms + max(span.timestamp_delta_ms for span in kept))
    return pack_batch(replace(header, record_count=len(kept)), compress(header.compression, section))


def _emptied(header: BatchHeader, *, keep_if_empty: bool) -> bytes | None:
    """A header without records, which keeps the producer's last sequence and the offsets."""
    if not keep_if_empty:
        return None
    emptied = replace(
        header,
        attributes=header.attributes & ~(CODEC_BITS | DELETE_HORIZON_BIT),
        base_timestamp_ms=header.max_timestamp_ms,
        record_count=0,
    )
    return pack_batch(emptied, b"")
