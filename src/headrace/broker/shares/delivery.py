"""Reads what can be delivered: whole batches as they are stored, and their offsets.

Records are not decoded; the batch headers are enough. Safe to run in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from headrace.broker.shares.window import LogBatch, Run
from headrace.log.partition_log import PartitionLog
from headrace.protocol.types import Buffer
from headrace.records.batch import BatchHeader, iterate_headers

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

    def add(self, batch: LogBatch, run: Run) -> None:
        first = max(batch.first, run.first)
        last = min(batch.last, run.last)
        if not batch.is_hidden:
            self.records += last - first + 1
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
) -> Reading:
    """Read the runs in their order until there are enough records or bytes, whole batches at a time."""
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
            taken_bytes = _take(found, data, run, records_max, hidden)
            if not taken_bytes:
                break
            found.pieces.append(data if taken_bytes == len(data) else data[:taken_bytes])
            found.size_bytes += taken_bytes
            offset = found.next_offset
    return found


def _take(found: Reading, data: Buffer, run: Run, records_max: int, hidden: Aborted) -> int:
    """Add batches until there are enough records; returns their bytes."""
    taken_bytes = 0
    for position, header in iterate_headers(data):
        if header.base_offset > run.last:
            break
        is_hidden = hidden.holds(header) or header.is_control
        found.add(LogBatch(header.base_offset, header.next_offset - 1, is_hidden), run)
        taken_bytes = position + header.size_bytes
        if found.records >= records_max:
            break
    return taken_bytes
