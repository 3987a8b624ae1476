"""The aborted transactions of a segment (`.txnindex`, in Kafka's format): what readers of committed data skip.

An entry is in the segment of the marker that ended its transaction. Unlike the other indexes this one is not only a
shortcut, because without an entry readers would see aborted records: it is synced before a producer snapshot covers its
offset, and everything after the snapshot is rebuilt from the log.
"""

from __future__ import annotations

import struct

from msgspec import Struct
from msgspec.structs import astuple

from headrace.log.errors import CorruptSegment

_VERSION = 0
_ENTRY = struct.Struct(">hqqqq")
ABORTED_ENTRY_BYTES = _ENTRY.size


class AbortedTransaction(Struct, frozen=True):
    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""
    last_stable_offset: int
    """The last stable offset after the transaction ended: no later entry starts below it."""


class AbortedIndex:
    """Entries in the order of their markers."""

    __slots__ = ("entries", "is_written")

    def __init__(self, entries: list[AbortedTransaction] | None = None) -> None:
        self.entries = entries or []
        self.is_written = True
        """Whether the file has the same entries."""

    def __len__(self) -> int:
        return len(self.entries)

    def append(self, entry: AbortedTransaction) -> None:
        self.entries.append(entry)
        self.is_written = False

    def truncate(self, offset: int) -> None:
        """Drop the transactions whose markers are at or after an offset."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) < len(self.entries):
            self.entries = kept
            self.is_written = False

    def encode(self) -> bytes:
        return b"".join(_ENTRY.pack(_VERSION, *astuple(entry)) for entry in self.entries)

    @classmethod
    def decode(cls, content: bytes, path: str) -> AbortedIndex:
        """CorruptSegment for anything that no log can have produced."""
        corrupt = CorruptSegment(path=path, position=0, reason="it is not a list of aborted transactions")
        if len(content) % ABORTED_ENTRY_BYTES:
            raise corrupt
        entries = []
        for version, producer_id, first_offset, last_offset, stable_offset in _ENTRY.iter_unpack(content):
            if version != _VERSION or not 0 <= first_offset < last_offset:
                raise corrupt
            entries.append(AbortedTransaction(producer_id, first_offset, last_offset, stable_offset))
        return cls(entries)
