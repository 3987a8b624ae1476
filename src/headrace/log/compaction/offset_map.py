"""The offset of the last value of each key: needed before a record can be removed.

Bounded in memory: a full map covers a prefix of the dirty part, and the next pass continues from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b

from msgspec import Struct

from headrace.log.config import LogConfig
from headrace.records.batch import BatchHeader, read_header
from headrace.records.errors import InvalidBatch
from headrace.records.record import RecordSpan, check_record_count, records_section, walk_records

# Keys are kept as a digest of this size, whatever their length: at 128 bits two never collide by chance.
_DIGEST_BYTES = 16


class OffsetMap(Struct, frozen=True, kw_only=True):
    """The last offset of every key among the records from the first dirty offset to `latest_offset`."""

    offsets: dict[bytes, int]
    """Digest of the key -> offset."""
    latest_offset: int
    """The last offset that the map covers; records after it are unchanged."""
    is_full: bool
    """Whether dirty records are left for the next pass."""

    def is_superseded(self, key: bytes, offset: int) -> bool:
        """Whether a later record has the same key."""
        return self.offsets.get(_digest(key), -1) > offset


def build_offset_map(
    batches: Iterable[bytes],
    config: LogConfig,
    *,
    first_dirty_offset: int,
    entries_max: int,
    is_aborted: Callable[[BatchHeader], bool] = lambda header: False,
) -> OffsetMap:
    """Walk the dirty batches in the order of the log, until they end or the map is full.

    The bound is checked between batches, so that a pass always covers at least one batch. A batch that cannot be
    decoded adds nothing: its records supersede nothing and are not superseded. The same holds for aborted batches.
    """
    assert entries_max > 0
    offsets: dict[bytes, int] = {}
    latest_offset = first_dirty_offset - 1
    for batch in batches:
        header = read_header(batch)
        if header.last_offset < first_dirty_offset:
            continue
        if len(offsets) >= entries_max:
            return OffsetMap(offsets=offsets, latest_offset=latest_offset, is_full=True)
        if not header.is_control and not is_aborted(header):
            _add_keys(offsets, batch, header, first_dirty_offset, config)
        latest_offset = header.last_offset
    return OffsetMap(offsets=offsets, latest_offset=latest_offset, is_full=False)


def _add_keys(
    offsets: dict[bytes, int], batch: bytes, header: BatchHeader, first_dirty_offset: int, config: LogConfig
) -> None:
    try:
        _, spans = decode_spans(batch, header, config)
    except InvalidBatch:
        return  # cleaning keeps it and reports it
    for span in spans:
        offset = header.base_offset + span.offset_delta
        if span.key is not None and offset >= first_dirty_offset:
            offsets[_digest(span.key)] = offset


def decode_spans(batch: bytes, header: BatchHeader, config: LogConfig) -> tuple[bytes, list[RecordSpan]]:
    """The decompressed records and the position of each; InvalidBatch unless the whole batch is valid."""
    check_record_count(header.record_count, config.batch_records_max)
    section = records_section(batch, bytes_max=config.decompressed_bytes_max)
    return section, list(walk_records(section, header.record_count))


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
