"""Compaction: of every key the last value stays, at its old offset.

`plan` decides from plain values whether a log is due and how far; `run` carries a plan out through two small
interfaces (read a segment's batches, write a cleaned segment) in a worker thread; whoever owns the log swaps
the files. What happens to one batch is in `batch_cleaning`, which keys are superseded in `offset_map`.

What becomes of transactions is in `compacted_transactions`. The caller's `cleanable_before_offset` must stay below the
first open one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from headrace.errors import HeadraceError
from headrace.log.aborted_index import AbortedTransaction
from headrace.log.compaction.batch_cleaning import CleaningRules, clean_batch
from headrace.log.compaction.offset_map import OffsetMap, build_offset_map
from headrace.log.compaction.transactions import CompactedTransactions
from headrace.log.config import LogConfig
from headrace.records.batch import NO_PRODUCER_ID, BatchHeader, read_header
from headrace.records.errors import InvalidBatch, InvalidBatchKind
from headrace.values import value

# An index entry holds offsets relative to the segment's base, and positions, in 32 signed bits.
RELATIVE_MAX = 2**31 - 1
# A full map of this size takes some 140 MB (measured: 133 bytes a key); more keys take more passes.
OFFSET_MAP_ENTRIES_MAX = 1_000_000
# Reports are for a person; a log full of undecodable batches is one finding, not millions.
UNDECODABLE_REPORTED_MAX = 100


class CompactionStopped(HeadraceError):
    """The pass was asked to stop; nothing was swapped and nothing is lost."""


class CompactionFailed(HeadraceError):
    """The pass could not be finished; the log is as it was."""


@value
class CompactionSegment:
    """What the plan needs to know of a segment, closed or active."""

    base_offset: int
    path: Path
    size_bytes: int
    index_bytes: int
    time_index_bytes: int
    first_timestamp_ms: int
    """The largest timestamp of the first batch; -1 where the segment is empty."""
    max_timestamp_ms: int


class CompactionReason(Enum):
    """Why a log is due."""

    DIRTY_RATIO = "enough of the log is dirty"
    MAX_LAG = "a dirty record has waited for max.compaction.lag.ms"


@value
class CompactionPlan:
    """A pass over `segments`, from the start of the log to the first that must wait."""

    segments: tuple[CompactionSegment, ...]
    first_dirty_offset: int
    end_offset: int
    """The base offset of the first segment that stays out of the pass."""
    dirty_ratio: float
    reason: CompactionReason


def plan(
    segments: Sequence[CompactionSegment],
    *,
    first_dirty_offset: int,
    start_offset: int,
    cleanable_before_offset: int,
    now_ms: int,
    config: LogConfig,
) -> CompactionPlan | None:
    """Whether the log is due. `segments` are all of the log's; the active one is last and never cleaned.

    `first_dirty_offset` is the cleaner checkpoint's; one that lies outside the log means that all is dirty.
    `cleanable_before_offset` holds back what is not final yet (not durable, or in an open transaction).
    """
    closed = segments[:-1]
    active_base_offset = segments[-1].base_offset
    if not start_offset <= first_dirty_offset <= active_base_offset:
        first_dirty_offset = start_offset
    end_offset = _first_uncleanable_offset(
        segments, first_dirty_offset, cleanable_before_offset, now_ms, config
    )
    cleanable = [segment for segment in closed if segment.base_offset < end_offset]
    dirty = _dirty(cleanable, first_dirty_offset, end_offset)
    dirty_bytes = sum(segment.size_bytes for segment in dirty)
    if dirty_bytes == 0:
        return None
    dirty_ratio = dirty_bytes / sum(segment.size_bytes for segment in cleanable)
    reason = _reason(dirty, dirty_ratio, now_ms, config)
    if reason is None:
        return None
    return CompactionPlan(
        segments=tuple(cleanable),
        first_dirty_offset=first_dirty_offset,
        end_offset=end_offset,
        dirty_ratio=dirty_ratio,
        reason=reason,
    )


def _first_uncleanable_offset(
    segments: Sequence[CompactionSegment],
    first_dirty_offset: int,
    cleanable_before_offset: int,
    now_ms: int,
    config: LogConfig,
) -> int:
    """The base offset of the first segment that must wait: not final, too young, or the active one."""
    for segment, following in pairwise(segments):
        is_dirty = following.base_offset > first_dirty_offset
        is_young = (
            config.min_compaction_lag_ms > 0
            and segment.max_timestamp_ms > now_ms - config.min_compaction_lag_ms
        )
        if following.base_offset > cleanable_before_offset or (is_dirty and is_young):
            return segment.base_offset
    return segments[-1].base_offset


def _dirty(
    cleanable: Sequence[CompactionSegment], first_dirty_offset: int, end_offset: int
) -> list[CompactionSegment]:
    ends = [segment.base_offset for segment in cleanable[1:]] + [end_offset]
    return [segment for segment, end in zip(cleanable, ends, strict=False) if end > first_dirty_offset]


def _reason(
    dirty: Sequence[CompactionSegment], dirty_ratio: float, now_ms: int, config: LogConfig
) -> CompactionReason | None:
    timestamps_ms = [segment.first_timestamp_ms for segment in dirty if segment.first_timestamp_ms >= 0]
    if timestamps_ms and now_ms - min(timestamps_ms) > config.max_compaction_lag_ms:
        return CompactionReason.MAX_LAG
    if dirty_ratio > config.min_cleanable_dirty_ratio:
        return CompactionReason.DIRTY_RATIO
    return None


def group_segments(
    segments: Sequence[CompactionSegment], *, end_offset: int, config: LogConfig
) -> list[tuple[CompactionSegment, ...]]:
    """Neighbours that fit into one segment together, so that cleaned segments do not dwindle to crumbs."""
    groups: list[list[CompactionSegment]] = []
    next_offsets = [segment.base_offset for segment in segments[1:]] + [end_offset]
    for segment, next_offset in zip(segments, next_offsets, strict=True):
        if groups and _fits([*groups[-1], segment], next_offset, config):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return [tuple(group) for group in groups]


def _fits(group: Sequence[CompactionSegment], next_offset: int, config: LogConfig) -> bool:
    return (
        sum(segment.size_bytes for segment in group) <= config.segment_bytes_max
        and sum(segment.index_bytes for segment in group) <= config.index_bytes_max
        and sum(segment.time_index_bytes for segment in group) <= config.index_bytes_max
        and next_offset - 1 - group[0].base_offset <= RELATIVE_MAX
    )


class CleanedSegmentWriter(Protocol):
    """The `.cleaned` files of one new segment: log, offset index, time index."""

    def append(self, batch: bytes, header: BatchHeader) -> None:
        """Write one batch behind the others, and index it."""

    def keep_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        """The aborted transactions whose markers are in the new segment."""

    def finish(self) -> None:
        """All is written: make it durable. The owner of the log swaps it in later."""

    def abandon(self) -> None:
        """Remove what was written."""


ReadBatches = Callable[[CompactionSegment], Iterator[bytes]]
OpenCleaned = Callable[[int], CleanedSegmentWriter]


@value
class UndecodableBatch:
    """A batch that stayed as it is because it could not be looked into."""

    path: Path
    base_offset: int
    kind: InvalidBatchKind
    message: str


@value
class Replacement:
    """`writer`'s finished segment takes the place of `sources`, with the first one's base offset."""

    sources: tuple[CompactionSegment, ...]
    writer: CleanedSegmentWriter
    size_bytes: int

    @property
    def base_offset(self) -> int:
        return self.sources[0].base_offset


@dataclass(slots=True, kw_only=True)
class CompactionTally:
    """What a pass has seen and done so far."""

    records_read: int = 0
    records_kept: int = 0
    keyless_removed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    undecodable_count: int = 0
    undecodable: list[UndecodableBatch] = field(default_factory=list)
    """The first UNDECODABLE_REPORTED_MAX of them."""


@value
class Compacted:
    """A finished pass: swap `replacements` in, then write `first_dirty_offset` to the cleaner checkpoint."""

    replacements: tuple[Replacement, ...]
    first_dirty_offset: int
    is_partial: bool
    """Whether the offset map was full, so that another pass has work at once."""
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
    """Carry out `plan`. May run in a thread of its own: it changes no segment of the log.

    `last_offset_of_producers` tells of every active producer id the last offset that it wrote; the batch that
    ends there is kept even when empty, because it holds the last sequence number. `aborted` are the aborted
    transactions of the whole log: a marker may stand behind the segments of the pass. If anything fails, whatever
    was written is removed again and the error passed on.
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
    for segment in _dirty(plan.segments, plan.first_dirty_offset, plan.end_offset):
        for batch in read_batches(segment):
            _check_stop(should_stop)
            yield batch


def _check_stop(should_stop: Callable[[], bool]) -> None:
    if should_stop():
        raise CompactionStopped("compaction was stopped", hint="the next pass starts over; nothing was lost")


class _Cleaning:
    """The second half of a pass: the state that is carried from batch to batch, in the order of the log."""

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
        """One cleaned segment for the group; None where a lone segment came out as it was."""
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
            # What lies in an unreadable batch may be what a later tombstone deletes.
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
        # The last batch of the pass shows how far the offsets went, even if nothing of it is left.
        return is_last_of_producer or header.next_offset == self._end_offset

    def _report(self, problem: InvalidBatch, segment: CompactionSegment, header: BatchHeader) -> None:
        self.tally.undecodable_count += 1
        if len(self.tally.undecodable) < UNDECODABLE_REPORTED_MAX:
            self.tally.undecodable.append(
                UndecodableBatch(
                    path=segment.path,
                    base_offset=header.base_offset,
                    kind=problem.kind,
                    message=problem.message,
                )
            )


def _check_size(size_bytes: int, group: Sequence[CompactionSegment]) -> None:
    # Only a segment of nearly 2 GiB, whose batches grew by being compressed again, can come here.
    if size_bytes > RELATIVE_MAX:
        raise CompactionFailed(
            f"cleaning {group[0].path} gives more than {RELATIVE_MAX} bytes",
            hint="choose a smaller segment.bytes for the topic",
        )
