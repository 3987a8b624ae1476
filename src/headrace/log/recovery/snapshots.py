"""The producer snapshots of a partition: which one to load, what to read behind it, which ones to drop.

A snapshot carries its own checksum and everything in it is in the log too, so none of them need be synced: a bad
one is passed over for the one before.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Sequence

from headrace.log.errors import CorruptSegment
from headrace.log.filesystem import FileSystem
from headrace.log.producer_state import InvalidSnapshot, ProducerStates
from headrace.log.reading import floor_segment
from headrace.log.recovery.opening import EventSink
from headrace.log.segment import Segment
from headrace.log.transactions import forget_aborted, replay_marker

SNAPSHOT_SUFFIX = ".snapshot"
# One to load and one in case that it is bad.
SNAPSHOTS_KEPT = 2


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Offsets that snapshots exist for, newest first."""
    stems = (name.removesuffix(SNAPSHOT_SUFFIX) for name in names if name.endswith(SNAPSHOT_SUFFIX))
    return sorted((int(stem) for stem in stems if stem.isdigit()), reverse=True)


def snapshot_path(directory: str, offset: int) -> str:
    return os.path.join(directory, f"{offset:020d}{SNAPSHOT_SUFFIX}")


def write_snapshot(
    files: FileSystem,
    directory: str,
    offset: int,
    producers: ProducerStates,
    *,
    kept_offsets: Container[int] = (),
) -> None:
    """Write the state as of offset, and drop the snapshots that are no longer needed."""
    files.write_whole(snapshot_path(directory, offset), producers.encode(), durable=False)
    names = [name for name, _ in files.list_directory(directory)]
    for old in snapshot_offsets(names)[SNAPSHOTS_KEPT:]:
        if old not in kept_offsets:
            files.remove(snapshot_path(directory, old))


def restore(
    files: FileSystem,
    directory: str,
    names: Iterable[str],
    segments: Sequence[Segment],
    producers: ProducerStates,
    *,
    now_ms: int,
    on_event: EventSink,
) -> int:
    """Bring producers to the end of the log; the offset of the snapshot that it began with (-1 for none)."""
    end_offset = segments[-1].next_offset
    from_offset = -1
    for offset in snapshot_offsets(names):
        path = snapshot_path(directory, offset)
        if offset > end_offset:
            # It knows of batches that the log has lost.
            files.remove(path)
            continue
        try:
            producers.load(files.read_whole(path))
        except InvalidSnapshot as error:
            on_event("producer_snapshot_ignored", {"path": path, "reason": str(error)})
            files.remove(path)
            continue
        from_offset = offset
        break
    if from_offset >= 0 and not _aborted_are_readable(segments, from_offset):
        on_event("aborted_index_ignored", {"path": directory, "reason": "the whole log is read for it"})
        producers.clear()
        from_offset = -1
    if from_offset < end_offset:
        replay(segments, producers, from_offset, now_ms=now_ms)
    return from_offset


def _aborted_are_readable(segments: Sequence[Segment], from_offset: int) -> bool:
    """Whether the lists that are to be extended can be."""
    try:
        for segment in segments:
            if segment.next_offset > from_offset:
                segment.aborted_index()
    except CorruptSegment:
        return False
    return True


def replay(segments: Sequence[Segment], producers: ProducerStates, from_offset: int, *, now_ms: int) -> None:
    """Read the headers from an offset on as if their batches were appended just now."""
    first = floor_segment([segment.base_offset for segment in segments], from_offset)
    for segment in segments[first:]:
        forget_aborted(segment, from_offset)
        start = segment.offset_index().position_at_or_before(from_offset)
        for position, header in segment.walk(start):
            if header.producer_id < 0 or header.base_offset < from_offset:
                continue
            if header.is_control:
                replay_marker(producers, segment, position, header, now_ms=now_ms)
            else:
                producers.update(
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.last_sequence,
                    header.base_offset,
                    header.last_offset,
                    header.crc,
                    now_ms,
                )
                # A batch that compaction has emptied belongs to a transaction that ended long ago.
                if header.is_transactional and header.record_count:
                    producers.begin_transaction(header.producer_id, header.base_offset)
        segment.write_aborted_index()
