"""The aborted transactions of a segment (`.txnindex`, in Kafka's format): what readers of committed data skip.

An entry stands in the segment of the marker that ended its transaction. Unlike the other indexes this one is no mere
shortcut, since a missing entry would show aborted records: it is synced before a producer snapshot says that all up to
its offset is known, and everything behind the snapshot is built again from the log.
"""

from __future__ import annotations

import struct

from msgspec import Struct
from msgspec.structs import astuple

_VERSION = 0
_ENTRY = struct.Struct(">hqqqq")
ABORTED_ENTRY_BYTES = _ENTRY.size


class AbortedTransaction(Struct, frozen=True):
    producer_id: int
    first_offset: int
    last_offset: int
    """Offset of the marker."""
    last_stable_offset: int
    """Where the last stable offset stood once the transaction had ended: no later entry begins below it."""


class AbortedIndex:
    """Entries in the order of their markers."""

    __slots__ = ("entries", "is_written")

    def __init__(self, entries: list[AbortedTransaction] | None = None) -> None:
        self.entries = entries or []
        self.is_written = True
        """Whether the file says the same."""

    def __len__(self) -> int:
        return len(self.entries)

    def append(self, entry: AbortedTransaction) -> None:
        self.entries.append(entry)
        self.is_written = False

    def truncate(self, offset: int) -> None:
        """Forget the transactions whose markers stand at or behind offset."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) < len(self.entries):
            self.entries = kept
            self.is_written = False

    def encode(self) -> bytes:
        return b"".join(_ENTRY.pack(_VERSION, *astuple(entry)) for entry in self.entries)

    @classmethod
    def decode(cls, content: bytes) -> AbortedIndex | None:
        """None for anything that no log can have produced."""
        if len(content) % ABORTED_ENTRY_BYTES:
            return None
        entries = []
        for version, producer_id, first_offset, last_offset, stable_offset in _ENTRY.iter_unpack(content):
            if version != _VERSION or not 0 <= first_offset < last_offset:
                return None
            entries.append(AbortedTransaction(producer_id, first_offset, last_offset, stable_offset))
        return cls(entries)
