"""Transactions in a compaction pass: which batches were aborted, and which markers are no longer needed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable
from enum import Enum

from headrace.log.aborted_index import AbortedTransaction
from headrace.records.batch import BatchHeader


class Fate(Enum):
    """What the transaction of a batch means for the batch."""

    ORDINARY = "cleaned by its keys"
    ABORTED = "its records are removed"
    ENDS_NOTHING = "a marker of a transaction without remaining records"


class CompactedTransactions:
    """Call `fate` for every batch, in the order of the log and from its start."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        for entry in sorted(aborted, key=lambda entry: entry.first_offset):
            self._aborted.setdefault(entry.producer_id, []).append(entry)
        self._with_batches: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether a batch of records belongs to an aborted transaction."""
        if not header.is_transactional or header.is_control:
            return False
        entries = self._aborted.get(header.producer_id)
        if entries is None:
            return False
        found = bisect_right(entries, header.base_offset, key=lambda entry: entry.first_offset)
        return found > 0 and header.base_offset < entries[found - 1].last_offset

    def fate(self, header: BatchHeader) -> Fate:
        if not header.is_transactional:
            return Fate.ORDINARY
        if header.is_control:
            has_batches = header.producer_id in self._with_batches
            self._with_batches.discard(header.producer_id)
            return Fate.ORDINARY if has_batches else Fate.ENDS_NOTHING
        self._with_batches.add(header.producer_id)
        return Fate.ABORTED if self.is_aborted(header) else Fate.ORDINARY

    def with_markers(self, marker_offsets: Collection[int]) -> list[AbortedTransaction]:
        """The aborted transactions that end at these offsets, in the order of their markers."""
        kept = [
            entry
            for entries in self._aborted.values()
            for entry in entries
            if entry.last_offset in marker_offsets
        ]
        return sorted(kept, key=lambda entry: entry.last_offset)
