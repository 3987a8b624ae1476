"""Compaction: the last value of every key is kept, at its old offset.

`run` carries out a plan of `planning` through two small interfaces (read the batches of a segment, write a cleaned
segment) in a worker thread; `log_compaction` swaps the files. `batch_cleaning` cleans one batch, `offset_map` knows
which keys are superseded, and `compacted_transactions` which transactions were aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from headrace.log.aborted_index import AbortedTransaction
from headrace.log.compaction.batch_cleaning import CleaningRules, clean_batch
from headrace.log.compaction.compacted_transactions import CompactedTransactions
from headrace.log.compaction.offset_map import OffsetMap, build_offset_map
from headrace.log.compaction.planning import (
    RELATIVE_MAX,
    CompactionPlan,
    CompactionSegment,
    dirty_segments,
    group_segments,
)
from headrace.log.config import LogConfig
from headrace.log.errors import LogError
from headrace.records.batch import NO_PRODUCER_ID, BatchHeader, read_header
from headrace.records.errors import InvalidBatch

# A full map of this size takes some 140 MB (measured: 133 bytes a key); more keys take more passes.
OFFSET_MAP_ENTRIES_MAX = 1_000_000
# Reports are for a person; a log full of undecodable batches is one finding, not millions.
UNDECODABLE_REPORTED_MAX = 100


class CompactionFailed(LogError):
    """The pass stopped before its end; the log is unchanged."""


class CleanedSegmentWriter(Protocol):
    """The `.cleaned` files of one new segment: log, offset index, time index."""

    def append(self, batch: bytes, header: BatchHeader) -> None:
        """Write one batch after the others, and index it."""

    def keep_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        """Keep the aborted transactions whose markers are in the new segment."""

    def finish(self) -> None:
        """Make the written files durable. The owner of the log swaps them in later."""

    def abandon(self) -> None:
        """Remove what was written."""


ReadBatches = Callable[[CompactionSegment], Iterator[bytes]]
OpenCleaned = Callable[[int], CleanedSegmentWriter]


class UndecodableBatch(Struct, frozen=True, kw_only=True):
    """A batch that was kept unchanged because it could not be decoded."""

    path: Path
    base_offset: int
    problem: InvalidBatch


class Replacement(Struct, frozen=True, kw_only=True):
    """The segment of `writer` replaces `sources`, with the base offset of the first one."""

    sources: tuple[CompactionSegment, ...]
    writer: CleanedSegmentWriter
    size_bytes: int

    @property
    def base_offset(self) -> int:
        return self.sources[0].base_offset


class CompactionTally(Struct, kw_only=True):
    """Counts of one pass."""

    records_read: int = 0
    records_kept: int = 0
    keyless_removed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    undecodable_count: int = 0
    undecodable: list[UndecodableBatch] = field(default_factory=list)
    """The first UNDECODABLE_REPORTED_MAX of them."""


class Compacted(Struct, frozen=True, kw_only=True):
    """A finished pass: swap `replacements` in, then write `first_dirty_offset` to the cleaner checkpoint."""

    replacements: tuple[Replacement, ...]
    first_dirty_offset: int
    is_partial: bool
    """Whether the offset map was full, so that another pass is due at once."""
    tally: CompactionTally


def run(
    plan: CompactionPlan,
    *,
    config: LogConfig,
    read_batches: ReadBatches,
    open_cleaned: OpenCleaned,
    last_offset_of_producers: Mapping[int, int],
    now_ms: int,
    aborted: Iterable[AbortedTransaction] = (),
    offset_map_entries_max: int = OFFSET_MAP_ENTRIES_MAX,
    should_stop: Callable[[], bool] = lambda: False,
) -> Compacted:
    """Carry out `plan`. May run in any thread: it changes no segment of the log.

    `last_offset_of_producers` has the last offset of every active producer id; the batch that ends there is kept even
    if it is empty, because it has the last sequence number. `aborted` are the aborted transactions of the whole log: a
    marker may be in a segment after those of the pass. If anything fails, the cleaned files are removed and the error
    is raised.
    """
    transactions = CompactedTransactions(aborted)
    offset_map = build_offset_map(
        _dirty_batches(plan, read_batches, should_stop),
        first_dirty_offset=plan.first_dirty_offset,
        entries_max=offset_map_entries_max,
        decompressed_bytes_max=config.decompressed_bytes_max,
        batch_records_max=config.batch_records_max,
        is_aborted=transactions.is_aborted,
    )
    cleaning = _Cleaning(plan, config, offset_map, last_offset_of_producers, transactions, now_ms)
    covered = [segment for segment in plan.segments if segment.base_offset <= offset_map.latest_offset]
    end_offset = (
        plan.end_offset if len(covered) == len(plan.segments) else plan.segments[len(covered)].base_offset
    )
    replacements: list[Replacement] = []
    try:
        for group in group_segments(covered, end_offset=end_offset, config=config):
            replacement = cleaning.clean_group(group, read_batches, open_cleaned, should_stop)
            if replacement is not None:
                replacements.append(replacement)
    except BaseException:
        for replacement in replacements:
            replacement.writer.abandon()
        raise
    return Compacted(
        replacements=tuple(replacements),
        first_dirty_offset=offset_map.latest_offset + 1 if offset_map.is_full else plan.end_offset,
        is_partial=offset_map.is_full,
        tally=cleaning.tally,
    )


def _dirty_batches(
    plan: CompactionPlan, read_batches: ReadBatches, should_stop: Callable[[], bool]
) -> Iterator[bytes]:
    for segment in dirty_segments(plan.segments, plan.first_dirty_offset, plan.end_offset):
        for batch in read_batches(segment):
            _check_stop(should_stop)
            yield batch


def _check_stop(should_stop: Callable[[], bool]) -> None:
    if should_stop():
        raise CompactionFailed("compaction was stopped", hint="the next pass starts over; nothing was lost")


class _Cleaning:
    """The second half of a pass: its state from batch to batch, in the order of the log."""

    def __init__(
        self,
        plan: CompactionPlan,
        config: LogConfig,
        offset_map: OffsetMap,
        last_offset_of_producers: Mapping[int, int],
        transactions: CompactedTransactions,
        now_ms: int,
    ) -> None:
        self._transactions = transactions
        self.tally = CompactionTally()
        self._end_offset = plan.end_offset
        self._last_offset_of_producers = last_offset_of_producers
        self._rules = CleaningRules(
            offset_map=offset_map,
            now_ms=now_ms,
            delete_retention_ms=config.delete_retention_ms,
            decompressed_bytes_max=config.decompressed_bytes_max,
            batch_records_max=config.batch_records_max,
        )

    def clean_group(
        self,
        group: tuple[CompactionSegment, ...],
        read_batches: ReadBatches,
        open_cleaned: OpenCleaned,
        should_stop: Callable[[], bool],
    ) -> Replacement | None:
        """One cleaned segment for the group; None if a single segment did not change."""
        writer = open_cleaned(group[0].base_offset)
        size_bytes = 0
        is_changed = len(group) > 1
        markers: set[int] = set()
        try:
            for segment in group:
                for batch in read_batches(segment):
                    _check_stop(should_stop)
                    cleaned = self._clean(batch, segment)
                    is_changed = is_changed or cleaned is not batch
                    if cleaned is not None:
                        size_bytes += len(cleaned)
                        _check_size(size_bytes, group)
                        header = read_header(cleaned)
                        writer.append(cleaned, header)
                        if header.is_control and header.record_count:
                            markers.add(header.last_offset)
            if not is_changed:
                writer.abandon()
                return None
            if markers:
                writer.keep_aborted(self._transactions.with_markers(markers))
            writer.finish()
        except BaseException:
            writer.abandon()
            raise
        self.tally.bytes_written += size_bytes
        return Replacement(sources=group, writer=writer, size_bytes=size_bytes)

    def _clean(self, batch: bytes, segment: CompactionSegment) -> bytes | None:
        header = read_header(batch)
        cleaned = clean_batch(
            batch,
            self._rules,
            self._transactions.fate(header),
            keep_if_empty=self._must_keep(header),
            # An undecodable batch may have a value that a later tombstone deletes.
            keep_tombstones=self.tally.undecodable_count > 0,
        )
        self.tally.bytes_read += len(batch)
        self.tally.records_read += cleaned.records_read
        self.tally.records_kept += cleaned.records_kept
        self.tally.keyless_removed += cleaned.keyless_removed
        if cleaned.problem is not None:
            self._report(cleaned.problem, segment, header)
        return cleaned.batch

    def _must_keep(self, header: BatchHeader) -> bool:
        is_last_of_producer = (
            header.producer_id != NO_PRODUCER_ID
            and self._last_offset_of_producers.get(header.producer_id) == header.last_offset
        )
        # The last batch of the pass has the last offset, even if no record of it is left.
        return is_last_of_producer or header.next_offset == self._end_offset

    def _report(self, problem: InvalidBatch, segment: CompactionSegment, header: BatchHeader) -> None:
        self.tally.undecodable_count += 1
        if len(self.tally.undecodable) < UNDECODABLE_REPORTED_MAX:
            self.tally.undecodable.append(
                UndecodableBatch(
                    path=segment.path,
                    base_offset=header.base_offset,
                    problem=problem,
                )
            )


def _check_size(size_bytes: int, group: Sequence[CompactionSegment]) -> None:
    # Only a segment of nearly 2 GiB whose batches grew when they were compressed again can get here.
    if size_bytes > RELATIVE_MAX:
        raise CompactionFailed(
            f"cleaning {group[0].path} writes more than {RELATIVE_MAX} bytes",
            hint="choose a smaller segment.bytes for the topic",
        )
