"""Reads what can be delivered: whole batches as they are stored, and their offsets.

Records are not decoded, except for the keys of a group that is ordered by them; the batch headers are enough. Safe to
run in a thread.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.broker.shares.key_order import MISSING, Ahead
from headrace.broker.shares.spans import OffsetRange
from headrace.broker.shares.window import LOG_END, BatchKeys, LogBatch, Run
from headrace.log.config import LogConfig
from headrace.log.partition_log import PartitionLog
from headrace.protocol.types import Buffer
from headrace.records.batch import BatchHeader, iterate_headers
from headrace.records.errors import InvalidBatch
from headrace.records.keys import key_hashes
from headrace.records.record import check_record_count, records_section, walk_records

logger = logging.getLogger(__name__)

READ_BYTES = 262_144
"""The size of a read: enough for thousands of small records, and not much waste if fewer are wanted."""

RUNS_MAX = 64
"""Separate ranges that one fetch reads: records that were released one by one are not adjacent."""


class Reading(Struct):
    """Batches in the order of the log."""

    pieces: list[Buffer] = field(default_factory=list)
    batches: list[LogBatch] = field(default_factory=list)
    records: int = 0
    size_bytes: int = 0
    next_offset: int = 0
    keys: list[BatchKeys] = field(default_factory=list)

    def add(self, batch: LogBatch, run: Run) -> None:
        first = max(batch.first, run.first)
        last = min(batch.last, run.last)
        if not batch.is_hidden:
            self.records += run.expected_of(last - first + 1)
        self.next_offset = batch.last + 1
        before = self.batches[-1] if self.batches else None
        if before is not None and before.last == batch.first - 1 and before.is_hidden == batch.is_hidden:
            self.batches[-1] = replace(before, last=batch.last)
        else:
            self.batches.append(batch)

    def up_to(self, last: int) -> Buffer:
        """The bytes without the batches after an offset, which were not acquired."""
        pieces = [_cut_behind(piece, last) for piece in self.pieces]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def with_offsets(self, ranges: Sequence[OffsetRange]) -> Buffer:
        """The bytes of the batches that have records in these ranges, which are in order."""
        kept = []
        for piece in self.pieces:
            start = end = 0
            for position, header in iterate_headers(piece):
                index = bisect_right(ranges, header.last_offset, key=lambda each: each.first) - 1
                if index >= 0 and ranges[index].last >= header.base_offset:
                    if position != end:
                        kept.append(piece[start:end])
                        start = position
                    end = position + header.size_bytes
            kept.append(piece[start:end])
        return kept[0] if len(kept) == 1 else b"".join(kept)


def _cut_behind(piece: Buffer, last: int) -> Buffer:
    for position, header in iterate_headers(piece):
        if header.base_offset > last:
            return piece[:position]
    return piece


class Aborted:
    """Finds the batches of aborted transactions; it is called in the order of the log."""

    def __init__(self, transactions: Sequence[tuple[int, int]]) -> None:
        self._to_come = sorted(transactions, key=lambda one: one[1], reverse=True)
        self._open: set[int] = set()

    def holds(self, header: BatchHeader) -> bool:
        while self._to_come and self._to_come[-1][1] < header.next_offset:
            self._open.add(self._to_come.pop()[0])
        if header.producer_id not in self._open or not header.is_transactional:
            return False
        if header.is_control:
            self._open.discard(header.producer_id)  # the marker that ends it
        return True


def read_runs(
    log: PartitionLog,
    runs: Sequence[Run],
    *,
    records_max: int,
    bytes_max: int,
    end_offset: int,
    nowait: bool,
    aborted: Sequence[tuple[int, int]] = (),
    keys_from: int = LOG_END,
) -> Reading:
    """Read the runs in their order until there are enough records or bytes, whole batches at a time.

    Keys are read of batches that have records from the offset `keys_from` on.
    """
    found = Reading()
    hidden = Aborted(aborted)
    for run in runs:
        offset = max(run.first, found.next_offset, log.start_offset)
        while found.records < records_max and offset < end_offset and offset <= run.last:
            room_bytes = bytes_max - found.size_bytes
            if room_bytes <= 0:
                return found
            data = log.reader.read(
                offset,
                bytes_max=min(READ_BYTES, room_bytes),
                end_offset=end_offset,
                at_least_one=True,
                nowait=nowait,
            )
            if found.records and len(data) > room_bytes:
                return found  # a batch too large for what is left: only the first may exceed the limit
            taken_bytes = _take(found, data, run, records_max, hidden, keys_from, log.config)
            if not taken_bytes:
                break
            found.pieces.append(data if taken_bytes == len(data) else data[:taken_bytes])
            found.size_bytes += taken_bytes
            offset = found.next_offset
    return found


def _take(
    found: Reading,
    data: Buffer,
    run: Run,
    records_max: int,
    hidden: Aborted,
    keys_from: int,
    config: LogConfig,
) -> int:
    """Add batches until there are enough records; returns their bytes."""
    taken_bytes = 0
    for position, header in iterate_headers(data):
        if header.base_offset > run.last:
            break
        is_hidden = hidden.holds(header) or header.is_control
        found.add(LogBatch(header.base_offset, header.next_offset - 1, is_hidden), run)
        taken_bytes = position + header.size_bytes
        if header.next_offset > keys_from:
            found.keys.append(_keys(data[position:taken_bytes], header, is_hidden, config))
        if found.records >= records_max:
            break
    return taken_bytes


def _keys(batch: Buffer, header: BatchHeader, is_hidden: bool, config: LogConfig) -> BatchKeys:
    count = header.last_offset_delta + 1
    if is_hidden:
        return BatchKeys(header.base_offset, [MISSING] * count)
    try:
        check_record_count(header.record_count, config.batch_records_max)
        section = records_section(batch, bytes_max=config.decompressed_bytes_max)
        if header.record_count == count:
            return BatchKeys(header.base_offset, key_hashes(section, count))
        found: list[Ahead] = [MISSING] * count
        for span in walk_records(section, header.record_count):
            found[span.offset_delta] = None if span.key is None else hash(span.key)
    except (InvalidBatch, IndexError) as error:
        # Members can't read it either: they get it as it is, as records without keys.
        logger.warning("keys of the batch at offset %d can't be read: %s", header.base_offset, error)
        return BatchKeys(header.base_offset, [None] * count)
    return BatchKeys(header.base_offset, found)
