"""A damaged part of a segment, as recovery and repair report it."""

from __future__ import annotations

from msgspec import Struct

from headrace.log.errors import CorruptSegment


class Damage(Struct, frozen=True, kw_only=True):
    """Bytes without a valid batch that are not a torn tail: valid batches follow, or they were known to be on disk."""

    path: str
    position: int
    end_position: int
    first_offset: int
    """First offset that cannot be read."""
    next_offset: int
    """First offset after the damage that can be read again."""
    reason: str

    def as_error(self) -> CorruptSegment:
        return CorruptSegment(path=self.path, position=self.position, reason=self.reason)


def missing_offsets(path: str, position: int, first_offset: int, next_offset: int) -> Damage:
    """Offsets of which no byte is left."""
    return Damage(
        path=path,
        position=position,
        end_position=position,
        first_offset=first_offset,
        next_offset=next_offset,
        reason=f"offsets {first_offset} to {next_offset - 1} were on disk and are missing",
    )
