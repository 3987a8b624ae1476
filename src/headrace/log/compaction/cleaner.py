"""Compaction: the last value of every key is kept, at its old offset.

A `CompactionPass` carries out a plan of `planning` in a worker thread: it reads segments and writes cleaned ones beside
them, and `log_compaction` swaps the files. `batch_cleaning` cleans one batch, `offset_map` knows which keys are
superseded, and `compacted_transactions` which transactions were aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from headrace.log.aborted_index import AbortedTransaction
from headrace.log.compaction.batch_cleaning import CleaningRules, clean_batch
from headrace.log.compaction.compacted_transactions import CompactedTransactions
from headrace.log.compaction.offset_map import OffsetMap, build_offset_map
from headrace.log.compaction.planning import (
    CompactionPlan,
    CompactionSegment,
    dirty_segments,
    group_segments,
)
from headrace.log.config import LogConfig
from headrace.log.errors import LogError
from headrace.log.filesystem import FileSystem
from headrace.log.recovery.leftovers import CLEANED_SUFFIX
from headrace.log.segment import RELATIVE_OFFSET_MAX, Segment
from headrace.records.batch import NO_PRODUCER_ID, BatchHeader, read_header
from headrace.records.errors import InvalidBatch

# A full map of this size takes some 140 MB (measured: 133 bytes a key); more keys take more passes.
OFFSET_MAP_ENTRIES_MAX = 1_000_000
# Reports are for a person; a log full of undecodable batches is one finding, not millions.
UNDECODABLE_REPORTED_MAX = 100


class UndecodableBatch(Struct, frozen=True, kw_only=True):
    """A batch that was kept unchanged because it could not be decoded."""

    path: str
    base_offset: int
    reason: str


class Replacement(Struct, frozen=True, kw_only=True):
    """`cleaned` replaces `sources`, with the base offset of the first one. Its files have the suffix `.cleaned`."""

    sources: tuple[Segment, ...]
    cleaned: Segment


class Compacted(Struct, frozen=True, kw_only=True):
    """A finished pass: swap `replacements` in, then write `first_dirty_offset` to the cleaner checkpoint."""

    replacements: tuple[Replacement, ...]
    first_dirty_offset: int
    undecodable: tuple[UndecodableBatch, ...]
    """The first UNDECODABLE_REPORTED_MAX of them."""


class CompactionPass(Struct, frozen=True, kw_only=True):
    """One pass. `run` may run in any thread; it changes no segment of the log."""

    files: FileSystem
    config: LogConfig
    plan: CompactionPlan
    segments: Mapping[int, Segment]
    """By base offset."""
    last_offset_of_producers: Mapping[int, int]
    """Of every active producer: the batch that ends there has its last sequence number, and is kept even if empty."""
    aborted: tuple[AbortedTransaction, ...]
    """Of the whole log: a marker may be in a segment after those of the pass."""
    now_ms: int
    should_stop: Callable[[], bool]

    def run(self, *, offset_map_entries_max: int = OFFSET_MAP_ENTRIES_MAX) -> Compacted:
        """Write the cleaned segments beside the old ones; after any error they are removed again."""
        plan = self.plan
        transactions = CompactedTransactions(self.aborted)
        offset_map = build_offset_map(
            self._dirty_batches(),
            self.config,
            first_dirty_offset=plan.first_dirty_offset,
            entries_max=offset_map_entries_max,
            is_aborted=transactions.is_aborted,
        )
        cleaning = _Cleaning(self, offset_map, transactions)
        covered = [segment for segment in plan.segments if segment.base_offset <= offset_map.latest_offset]
        end_offset = (
            plan.end_offset if len(covered) == len(plan.segments) else plan.segments[len(covered)].base_offset
        )
        replacements: list[Replacement] = []
        try:
            for group in group_segments(covered, end_offset=end_offset, config=self.config):
                replacement = cleaning.clean_group(self._sources(group))
                if replacement is not None:
                    replacements.append(replacement)
        except BaseException:
            for replacement in replacements:
                replacement.cleaned.remove()
            raise
        return Compacted(
            replacements=tuple(replacements),
            first_dirty_offset=offset_map.latest_offset + 1 if offset_map.is_full else plan.end_offset,
            undecodable=tuple(cleaning.undecodable),
        )

    def _dirty_batches(self) -> Iterator[bytes]:
        plan = self.plan
        for segment in self._sources(dirty_segments(plan.segments, plan.first_dirty_offset, plan.end_offset)):
            yield from self.batches_of(segment)

    def _sources(self, planned: Sequence[CompactionSegment]) -> tuple[Segment, ...]:
        return tuple(self.segments[segment.base_offset] for segment in planned)

    def batches_of(self, segment: Segment) -> Iterator[bytes]:
        for batch in segment.batches():
            if self.should_stop():
                raise LogError("compaction was stopped", hint="the next pass starts over; nothing was lost")
            yield batch


class _Cleaning:
    """The second half of a pass: its state from batch to batch, in the order of the log."""

    def __init__(
        self, work: CompactionPass, offset_map: OffsetMap, transactions: CompactedTransactions
    ) -> None:
        self._work = work
        self._transactions = transactions
        self._rules = CleaningRules(offset_map=offset_map, now_ms=work.now_ms, config=work.config)
        self.undecodable: list[UndecodableBatch] = []

    def clean_group(self, sources: tuple[Segment, ...]) -> Replacement | None:
        """One cleaned segment for the group; None if a single segment did not change."""
        cleaned = Segment(
            files=self._work.files,
            stem=sources[0].stem,
            base_offset=sources[0].base_offset,
            index_interval_bytes=self._work.config.index_interval_bytes,
            created_ms=self._work.now_ms,
            suffix=CLEANED_SUFFIX,
        )
        cleaned.create()
        try:
            is_changed = self._write(sources, cleaned) or len(sources) > 1
            if not is_changed:
                cleaned.remove()
                return None
            self._sync(cleaned)
        except BaseException:
            cleaned.remove()
            raise
        return Replacement(sources=sources, cleaned=cleaned)

    def _write(self, sources: tuple[Segment, ...], cleaned: Segment) -> bool:
        """Write the cleaned batches; whether any batch changed."""
        is_changed = False
        markers: set[int] = set()
        for segment in sources:
            for batch in self._work.batches_of(segment):
                kept = self._clean(batch, segment)
                is_changed = is_changed or kept is not batch
                if kept is None:
                    continue
                header = read_header(kept)
                cleaned.append(
                    (b"", kept),
                    len(kept),
                    header.last_offset,
                    header.base_timestamp_ms,
                    header.max_timestamp_ms,
                )
                _check_size(cleaned)
                if header.is_control and header.record_count:
                    markers.add(header.last_offset)
        for entry in self._transactions.with_markers(markers):
            cleaned.aborted_index().append(entry)
        return is_changed

    def _sync(self, cleaned: Segment) -> None:
        cleaned.write_indexes(is_final=True)
        cleaned.write_aborted_index()
        for file in (cleaned.file(), *cleaned.open_indexes()):
            self._work.files.sync(file.fd)
        cleaned.synced_bytes = cleaned.size_bytes

    def _clean(self, batch: bytes, segment: Segment) -> bytes | None:
        header = read_header(batch)
        try:
            return clean_batch(
                batch,
                self._rules,
                self._transactions.fate(header),
                keep_if_empty=self._must_keep(header),
                # An undecodable batch may have a value that a later tombstone deletes.
                keep_tombstones=bool(self.undecodable),
            )
        except InvalidBatch as error:
            if len(self.undecodable) < UNDECODABLE_REPORTED_MAX:
                self.undecodable.append(
                    UndecodableBatch(path=segment.path, base_offset=header.base_offset, reason=error.message)
                )
            return batch

    def _must_keep(self, header: BatchHeader) -> bool:
        is_last_of_producer = (
            header.producer_id != NO_PRODUCER_ID
            and self._work.last_offset_of_producers.get(header.producer_id) == header.last_offset
        )
        # The last batch of the pass has the last offset, even if no record of it is left.
        return is_last_of_producer or header.next_offset == self._work.plan.end_offset


def _check_size(cleaned: Segment) -> None:
    # Only a segment of nearly 2 GiB whose batches grew when they were compressed again can get here.
    if cleaned.size_bytes > RELATIVE_OFFSET_MAX:
        raise LogError(
            f"{cleaned.path} has more than {RELATIVE_OFFSET_MAX} bytes",
            hint="choose a smaller segment.bytes for the topic",
        )
