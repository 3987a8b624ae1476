"""The producer snapshots of a partition: which one to load, what to replay after it, which ones to remove.

A snapshot has its own checksum, and its content is in the log, too, so that none need be synced: a damaged one is
skipped for the one before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.log.errors import CorruptSegment, InvalidFile
from headrace.log.producer_state import ProducerStates
from headrace.log.segment import Segment
from headrace.log.segment_names import segment_bases, segment_path
from headrace.log.segments import Segments
from headrace.log.transactions import drop_aborted, replay_marker

SNAPSHOT_SUFFIX = ".snapshot"
# One to load, and one in case that it is damaged.
SNAPSHOTS_KEPT = 2


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """Offsets that have a snapshot, newest first."""
    return segment_bases(names, SNAPSHOT_SUFFIX)[::-1]


def snapshot_path(directory: str, offset: int) -> str:
    return segment_path(directory, offset) + SNAPSHOT_SUFFIX


class ProducerSnapshots:
    """Writes the state of the producers of one log, and restores it."""

    def __init__(self, segments: Segments, producers: ProducerStates) -> None:
        self._segments = segments
        self._folder = segments.folder
        self._producers = producers
        self._offset = -1

    @property
    def is_current(self) -> bool:
        """Whether the newest snapshot is as of the end of the log."""
        return self._offset == self._segments.end_offset

    def write(self) -> None:
        """Write the state as of the end of the log, and remove snapshots that are no longer needed."""
        folder, segments = self._folder, self._segments
        # After the snapshot's offset the log has the aborted transactions, before it only this index.
        segments.active.write_aborted_index()
        path = snapshot_path(folder.path, segments.end_offset)
        folder.files.write_whole(path, self._producers.encode(), durable=False)
        # Snapshots as of segments that are not archived yet are archived with them.
        kept = segments.base_offsets if folder.config.is_archived else ()
        names = [name for name, _ in folder.files.list_directory(folder.path)]
        for old in snapshot_offsets(names)[SNAPSHOTS_KEPT:]:
            if old not in kept:
                folder.files.remove(snapshot_path(folder.path, old))
        self._offset = segments.end_offset

    def try_write(self) -> None:
        """Write indexes and snapshot; a failure is an event and no error."""
        try:
            self._segments.active.write_indexes()
            self.write()
        except OSError as error:
            # Both only save recovery from reading more; the log is as durable as before.
            self._folder.on_event("checkpoint_failed", {"path": self._folder.path, "reason": str(error)})

    def restore(self, names: Iterable[str]) -> None:
        """Bring the producers to the end of the log: load a snapshot and replay the batches after it."""
        folder, producers = self._folder, self._producers
        segments = self._segments.view.segments
        end_offset = self._segments.end_offset
        from_offset = self._load_newest(names)
        if from_offset >= 0 and not _aborted_are_readable(segments, from_offset):
            reason = "the whole log is read to rebuild it"
            folder.on_event("aborted_index_ignored", {"path": folder.path, "reason": reason})
            producers.clear()
            from_offset = -1
        if from_offset < end_offset:
            for segment in self._segments.view.from_offset(from_offset):
                replay(segment, producers, from_offset, now_ms=folder.clock.now_ms())
        self._offset = from_offset

    def _load_newest(self, names: Iterable[str]) -> int:
        """Load the newest usable snapshot; its offset, -1 if there is none."""
        folder = self._folder
        for offset in snapshot_offsets(names):
            path = snapshot_path(folder.path, offset)
            if offset > self._segments.end_offset:
                # It has batches that the log has lost.
                folder.files.remove(path)
                continue
            try:
                self._producers.load(folder.files.read_whole(path))
            except InvalidFile as error:
                folder.on_event("producer_snapshot_ignored", {"path": path, "reason": str(error)})
                folder.files.remove(path)
                continue
            return offset
        return -1


def _aborted_are_readable(segments: Sequence[Segment], from_offset: int) -> bool:
    """Whether the lists of aborted transactions that a replay extends are readable."""
    try:
        for segment in segments:
            if segment.next_offset > from_offset:
                segment.aborted_index()
    except CorruptSegment:
        return False
    return True


def replay(segment: Segment, producers: ProducerStates, from_offset: int, *, now_ms: int) -> None:
    """Apply the batches of a segment from an offset on, as if they were appended now. Reads headers only."""
    drop_aborted(segment, from_offset)
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
