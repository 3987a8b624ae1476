"""One partition: batches go in at the end, come out anywhere, and survive what happens to the machine.

One thread owns a `PartitionLog` and is the only one to call what is written here, in `compacting_log`, and in
`shrinking_log`, which has how a log loses its oldest segments; what any thread may call is in `readable_log`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from headrace.clock import Clock
from headrace.log import checkpoints
from headrace.log.aborted_index import AbortedIndex, AbortedTransaction
from headrace.log.archive import manifest as archive
from headrace.log.archive.reading import PartitionArchive
from headrace.log.batch_check import (
    as_stored,
    check_batch,
    inspect,
    is_stored_as_it_came,
    may_inspect,
    must_inspect,
)
from headrace.log.checkpoints import CleanStop
from headrace.log.compaction.compacting_log import CompactingLog
from headrace.log.config import LogConfig
from headrace.log.errors import (
    InvalidTransactionState,
    LogReadOnly,
    StorageFailed,
    WouldBlock,
)
from headrace.log.filesystem import FileSystem, OpenFile
from headrace.log.flush import Flush, UnsyncedSegment
from headrace.log.index import OFFSET_ENTRY_BYTES
from headrace.log.producer_state import SEQUENCE_LIMIT
from headrace.log.reading import TimestampOffset, floor_segment
from headrace.log.recovery import leftovers, snapshots
from headrace.log.recovery.opening import (
    EventSink,
    Recovery,
    check_first,
    check_from,
    is_as_left,
    is_given_up,
)
from headrace.log.segment import ABORTED_INDEX_SUFFIX, LOG_SUFFIX, RELATIVE_OFFSET_MAX, Segment, segment_path
from headrace.log.transactions import end_transaction, marker_in
from headrace.records.batch import CONTROL_BIT, LOG_OVERHEAD_BYTES, TRANSACTIONAL_BIT, Buffer
from headrace.records.control import EndTransactionMarker

__all__ = ["Appended", "Flush", "PartitionLog", "TimestampOffset", "WouldBlock"]

logger = logging.getLogger(__name__)

NO_TIMESTAMP = -1
# Base offset, length and leader epoch: the part of a batch that the log writes itself.
_PREFIX = Struct(">qii")
_pack_prefix = _PREFIX.pack
_PREFIX_BYTES = _PREFIX.size


class Appended(NamedTuple):
    """Where a batch stands in the log. A named tuple: one is made for every batch."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int = NO_TIMESTAMP
    duplicate: bool = False
    """The batch was in the log already; the offsets are those of the first time."""


def log_event(name: str, fields: Mapping[str, object]) -> None:
    """Default for on_event: a line in Python's logging."""
    logger.warning(name, extra=dict(fields))


class PartitionLog(CompactingLog):
    """Made with `PartitionLog.open`."""

    def __init__(
        self,
        directory: str,
        config: LogConfig,
        *,
        files: FileSystem,
        clock: Clock,
        on_event: EventSink,
    ) -> None:
        super().__init__(directory, config, files=files, clock=clock, on_event=on_event)
        self._directory_changes_synced = 0
        self._is_new = False
        self._snapshot_offset = -1
        self._damaged_recovery_offset = 0
        self._is_stored_as_it_came = is_stored_as_it_came(config)
        self._may_inspect = may_inspect(config)

    # --- opening ---

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        config: LogConfig,
        *,
        files: FileSystem,
        clock: Clock,
        was_clean: bool,
        recovery_offset: int,
        start_offset: int | None,
        clean_stop: CleanStop | None = None,
        partition_archive: PartitionArchive | None = None,
        on_event: EventSink = log_event,
    ) -> PartitionLog:
        """Open the log in a directory, which is made when missing; see `recovery` for what is read and checked.

        `clean_stop` is how it was closed, if that is known: then also a missing file is noticed.
        """
        log = cls(os.fspath(directory), config, files=files, clock=clock, on_event=on_event)
        files.make_directory(log.directory)
        sizes = leftovers.tidy(files, log.directory, on_event)
        log._find_archived(partition_archive, sizes, start_offset or 0)
        segments = log._find_segments(sizes)
        first_offset = max(start_offset or 0, archive.end_of(log.archived))
        lost = log._lost_offsets()
        if not segments:
            if recovery_offset <= first_offset or is_given_up(lost, first_offset, recovery_offset):
                log._begin_empty(max(first_offset, recovery_offset))
                log.start_offset = max(start_offset or 0, log._first_kept_offset())
                return log
            segments = [log._create_segment(first_offset)]
        log._epochs.load(on_event)
        recovery = Recovery(
            files=files,
            config=config,
            on_event=on_event,
            epochs=log._epochs.starts,
            covered_offset=recovery_offset,
            lost=lost,
        )
        # Without its epochs the log has to look at its last batches for the newest one.
        is_clean = was_clean and bool(log._epochs.starts) and is_as_left(recovery, segments, clean_stop)
        if not is_clean:
            recovery.cleaned_offset = log._cleaner_offsets()[1]
            segments = check_from(recovery, segments, recovery_offset)
            if start_offset is not None:
                check_first(recovery, segments, first_offset, clean_stop)
        log._take(segments)
        first_kept = min([log._first_kept_offset(), *(damage.first_offset for damage in recovery.damages)])
        log.start_offset = min(max(start_offset or 0, first_kept), log.end_offset)
        log._snapshot_offset = snapshots.restore(
            files, log.directory, sizes, segments, log.producers, now_ms=clock.now_ms(), on_event=on_event
        )
        log._accept_recovery(recovery, is_clean, recovery_offset)
        # A broker may have thousands of partitions and few that are used: files are opened when they are.
        for segment in segments:
            if not segment.damages:
                segment.release()
        return log

    def _lost_offsets(self) -> list[tuple[int, int]]:
        path = os.path.join(self.directory, checkpoints.LOST_OFFSETS_NAME)
        try:
            return checkpoints.read_lost_offsets(self._files, path)
        except checkpoints.InvalidCheckpoint as error:
            self._on_event("lost_offsets_ignored", {"path": path, "reason": str(error)})
            return []

    def _find_segments(self, sizes: Mapping[str, int]) -> list[Segment]:
        bases = sorted(
            int(name.removesuffix(LOG_SUFFIX))
            for name in sizes
            if name.endswith(LOG_SUFFIX) and name.removesuffix(LOG_SUFFIX).isdigit()
        )
        following = [*bases[1:], *bases[-1:]]
        segments = [
            self._segment(base, size_bytes=sizes[f"{base:020d}{LOG_SUFFIX}"], next_offset=next_offset)
            for base, next_offset in zip(bases, following, strict=True)
        ]
        for segment in segments:
            if f"{segment.base_offset:020d}{ABORTED_INDEX_SUFFIX}" not in sizes:
                segment.use_aborted_index(AbortedIndex())
        return segments

    def _segment(self, base_offset: int, *, size_bytes: int, next_offset: int) -> Segment:
        return Segment(
            files=self._files,
            stem=segment_path(self.directory, base_offset),
            base_offset=base_offset,
            size_bytes=size_bytes,
            next_offset=next_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            created_ms=self._clock.now_ms(),
        )

    def _begin_empty(self, start_offset: int) -> None:
        self._is_new = True
        self._epochs.begin_first(start_offset)
        self._take([self._create_segment(start_offset)])
        self.start_offset = start_offset
        self._active.release()

    def _take(self, segments: list[Segment]) -> None:
        self._replace_segments(tuple(segments))
        self.end_offset = segments[-1].next_offset
        self._set_durable(self.end_offset, segments[-1], segments[-1].size_bytes)

    def _accept_recovery(self, recovery: Recovery, is_clean: bool, recovery_offset: int) -> None:
        self.damages = tuple(recovery.damages)
        if is_clean:
            return
        # The next start has to find the damage again: with the same recovery point it does.
        self._damaged_recovery_offset = recovery_offset
        self._epochs.begin_next(self.end_offset, epoch_seen=recovery.last_epoch)
        if self.end_offset != recovery_offset or recovery.bytes_cut:
            self._sync_recovered(recovery_offset)
        if recovery.damages:
            first = recovery.damages[0]
            self.read_only_reason = f"{first.path} is damaged at byte {first.position}: {first.reason}"

    def _sync_recovered(self, recovery_offset: int) -> None:
        """What a crash left may be in the page cache only; only after this is it as durable as it looks."""
        view = self._view
        for segment in view.segments[floor_segment(view.base_offsets, recovery_offset) :]:
            self._files.sync(segment.file().fd)
        self._files.sync_directory(self.directory)

    @property
    def leader_epoch(self) -> int:
        return self._epochs.current

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch not above the one asked for, offset where it ends); (-1, -1) for an epoch to come."""
        return self._epochs.end_of(epoch, start_offset=self.start_offset, end_offset=self.end_offset)

    def reconfigure(self, config: LogConfig) -> None:
        self.config = config
        self.producers.producer_ids_max = config.producer_ids_max
        self._is_stored_as_it_came = is_stored_as_it_came(config)
        self._may_inspect = may_inspect(config)
        if self.archived and not config.is_archived:
            self.start_offset = self.local_start_offset
            self._forget_expired()

    # --- appending ---

    def must_inspect(self, batch: Buffer) -> bool:
        """Whether a client's batch should be inspected in a thread, with `inspected_batch`, before it is appended."""
        return self._may_inspect and must_inspect(batch, self.config)

    def append(
        self, batch: Buffer, *, now_ms: int, from_client: bool = True, is_inspected: bool = False
    ) -> Appended:
        """Append one batch as it came off the wire; raises what its producer should hear.

        The buffer may be used for something else afterwards: nothing keeps a view of it.
        """
        if self.read_only_reason is not None:
            raise self._refusal()
        config = self.config
        header = check_batch(batch, config, now_ms, from_client=from_client)
        if self._may_inspect and not is_inspected:
            batch = inspect(batch, config, from_client=from_client)
        _, _, _, _, _, attributes, delta, base_timestamp_ms, max_timestamp_ms, producer_id, _, _, _ = header
        marker: EndTransactionMarker | None = None
        if producer_id >= 0 and attributes & CONTROL_BIT:
            self.producers.check_marker(producer_id, header[10])
            marker = marker_in(batch)
        elif producer_id >= 0:
            if self.producers.open_transactions and not attributes & TRANSACTIONAL_BIT:
                self._refuse_outside_transaction(producer_id)
            base_sequence = header[11]
            last_sequence = (base_sequence + delta) % SEQUENCE_LIMIT
            stored = self.producers.check(producer_id, header[10], base_sequence, last_sequence, header[4])
            if stored is not None:
                return Appended(stored.base_offset, stored.last_offset, NO_TIMESTAMP, True)
        append_time_ms = NO_TIMESTAMP
        if not self._is_stored_as_it_came:
            batch = as_stored(batch, config, now_ms)
            if config.timestamp_type == "LogAppendTime":
                append_time_ms = max_timestamp_ms = now_ms
        size = len(batch)
        base_offset = self.end_offset
        last_offset = base_offset + delta
        segment = self._view.segments[-1]
        if segment.extent[1] and self._must_roll(segment, size, last_offset, max_timestamp_ms, now_ms):
            segment = self._roll()
        prefix = _pack_prefix(base_offset, size - LOG_OVERHEAD_BYTES, self._epochs.current)
        parts = (prefix, memoryview(batch)[_PREFIX_BYTES:])
        try:
            segment.append(parts, size, last_offset, base_timestamp_ms, max_timestamp_ms)
        except OSError as error:
            raise self._append_failed(segment, error) from error
        self.end_offset = last_offset + 1
        if marker is not None:
            end_transaction(
                self.producers,
                segment,
                marker,
                producer_id,
                header[10],
                marker_offset=last_offset,
                now_ms=now_ms,
            )
        elif producer_id >= 0 and not attributes & CONTROL_BIT:
            self.producers.update(
                producer_id,
                header[10],
                base_sequence,
                last_sequence,
                base_offset,
                last_offset,
                header[4],
                now_ms,
            )
            if attributes & TRANSACTIONAL_BIT:
                self.producers.begin_transaction(producer_id, base_offset)
        return Appended(base_offset, last_offset, append_time_ms)

    def _refuse_outside_transaction(self, producer_id: int) -> None:
        if producer_id in self.producers.open_transactions:
            raise InvalidTransactionState(
                f"producer {producer_id} has a transaction open in {self.directory} and wrote outside of it",
                hint="end the transaction first",
            )

    # --- transactions ---

    def aborted_transactions(self, from_offset: int, below_offset: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions with records between the two offsets."""
        found: list[tuple[int, int]] = []
        for entries in self._aborted_from(from_offset):
            for entry in entries:
                if entry.last_offset >= from_offset and entry.first_offset < below_offset:
                    found.append((entry.producer_id, entry.first_offset))
                if entry.last_stable_offset >= below_offset:
                    return found
        return found

    def _aborted_from(self, offset: int) -> Iterator[Sequence[AbortedTransaction]]:
        """The lists of the segments from the one that holds offset on; none of this waits for the archive."""
        view = self._view
        if offset < view.base_offsets[0] and self.archive is not None:
            for archived in archive.entries_from(self.archived_only, offset):
                yield self.archive.aborted(self._files, self.directory, archived)
        for segment in view.segments[floor_segment(view.base_offsets, offset) :]:
            yield segment.aborted_index().entries

    def _refusal(self) -> LogReadOnly:
        hint = (
            "see the broker's log for the first error of this disk; start the broker again when it is sound"
        )
        if self.damages:
            hint = f"stop the broker and run `headrace log repair {self.directory}`; reading goes on"
        return LogReadOnly(f"{self.directory} is read-only: {self.read_only_reason}", hint=hint)

    def _append_failed(self, segment: Segment, error: OSError) -> StorageFailed:
        """Take back what was written in part, so that the next append finds everything as it was."""
        try:
            if segment.is_open:  # otherwise it could not be opened, and nothing was written
                segment.cut_to_size()
        except OSError as second:
            self._become_read_only(
                f"a write to {segment.path} failed ({error}) and could not be undone ({second})"
            )
        return self._storage_failed(f"writing to {segment.path} failed: {error}")

    # --- rolling ---

    def _must_roll(
        self, segment: Segment, size: int, last_offset: int, max_timestamp_ms: int, now_ms: int
    ) -> bool:
        config = self.config
        if segment.extent[1] + size > config.segment_bytes_max:
            return True
        if last_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
            return True
        if segment.index_bytes + OFFSET_ENTRY_BYTES > config.index_bytes_max:
            return True
        first_timestamp_ms = segment.first_batch_timestamp_ms()
        if first_timestamp_ms is None or first_timestamp_ms < 0 or max_timestamp_ms < 0:
            return now_ms - segment.created_ms > config.segment_ms
        return max_timestamp_ms - first_timestamp_ms > config.segment_ms

    def _roll(self, *, keeps_old: bool = True) -> Segment:
        """Close the active segment and begin the next; on failure nothing has changed."""
        old = self._active
        try:
            if keeps_old:  # otherwise not even the room for its indexes is needed
                old.write_indexes(is_final=True)
                old.write_aborted_index()
            new = self._create_segment(self.end_offset)
        except OSError as error:
            raise self._storage_failed(
                f"beginning a new segment in {self.directory} failed: {error}"
            ) from error
        if old.synced_bytes < old.size_bytes and old not in self._unsynced:
            self._unsynced.append(old)
        self._replace_segments((*self._view.segments, new))
        self._note_open(old)
        if self.config.is_archived and keeps_old:
            self._write_snapshot_if_possible()  # of just here: it goes to the archive with the segment
        return new

    def _create_segment(self, base_offset: int) -> Segment:
        segment = self._segment(base_offset, size_bytes=0, next_offset=base_offset)
        try:
            segment.create()
        except OSError as error:
            self._remove_unfinished(segment, error)
            raise
        self._directory_changes += 1
        return segment

    def _remove_unfinished(self, segment: Segment, error: OSError) -> None:
        """A log file whose indexes could not be made must go: appends may continue in the segment before it."""
        try:
            segment.remove()
        except OSError as second:
            self._become_read_only(f"{segment.path} could not be made ({error}) nor removed ({second})")

    # --- flushing ---

    def begin_flush(self) -> Flush:
        """What has to reach the disk for everything appended so far to be durable.

        OSError when files for it can't be opened. Nothing has happened then, and it may be tried again.
        """
        active = self._view.segments[-1]
        next_offset, size_bytes = active.extent
        closed = self._unsynced
        entries = [
            UnsyncedSegment(
                segment=segment,
                file=segment.file(),
                size_bytes=segment.size_bytes,
                indexes=segment.open_indexes(),
            )
            for segment in closed
        ]
        if size_bytes > active.synced_bytes:
            entries.append(
                UnsyncedSegment(segment=active, file=active.file(), size_bytes=size_bytes, indexes=())
            )
        return Flush(
            files=self._files,
            unsynced=tuple(entries),
            end_offset=next_offset,
            end_position=size_bytes,
            end_segment=active,
            flushed_bytes=sum(entry.size_bytes - entry.segment.synced_bytes for entry in entries),
            directory_changes=self._directory_changes,
            directories=self._unsynced_directories(),
        )

    def _unsynced_directories(self) -> tuple[OpenFile, ...]:
        if self._directory_changes == self._directory_changes_synced:
            return ()
        own = self._open_directory(self.directory)
        if self._is_new and self._directory_changes_synced == 0:
            return own, self._open_directory(os.path.dirname(self.directory) or ".")
        return (own,)

    def finish_flush(self, flush: Flush) -> None:
        """The flush has been synced: what it covers is durable."""
        for entry in flush.unsynced:
            entry.segment.synced_bytes = max(entry.segment.synced_bytes, entry.size_bytes)
        if self._unsynced:
            self._let_go_of_synced()
        self._directory_changes_synced = max(self._directory_changes_synced, flush.directory_changes)
        if flush.end_offset > self.durable_offset and self.read_only_reason is None:
            self._set_durable(flush.end_offset, flush.end_segment, flush.end_position)

    def _let_go_of_synced(self) -> None:
        """Closed segments stay open until their last sync, which is to report any error since they were written."""
        closed, self._unsynced = self._unsynced, []
        for segment in closed:
            if segment.synced_bytes < segment.size_bytes:
                self._unsynced.append(segment)
            else:
                self._note_open(segment)

    def fail_flush(self, flush: Flush, error: BaseException) -> None:
        """The flush failed. The kernel may have dropped the pages: asking again could lie, so nobody ever does."""
        self._become_read_only(f"fsync failed: {error}")

    def flush(self) -> None:
        """Make everything durable now, in this thread."""
        try:
            flush = self.begin_flush()
        except OSError as error:
            raise self._storage_failed(f"{self.directory} can't be flushed: {error}") from error
        try:
            flush.sync()
        except OSError as error:
            self.fail_flush(flush, error)
            raise self._storage_failed(f"fsync in {self.directory} failed: {error}") from error
        self.finish_flush(flush)

    # --- checkpoints, closing ---

    def checkpoint(self, now_ms: int) -> int:
        """Write down what a restart would have to read again; the offset from which on it must."""
        self.remove_retired(now_ms)
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        if self.read_only_reason is not None:
            return self._recovery_offset()
        if self._snapshot_offset == self.end_offset:
            self._release_idle()
        else:
            self._write_snapshot_if_possible()
        return self._recovery_offset()

    def _write_snapshot_if_possible(self) -> None:
        try:
            self._active.write_indexes()
            self._write_snapshot()
        except OSError as error:
            # Both only save a restart from reading more; the log itself is as durable as before.
            self._on_event("checkpoint_failed", {"path": self.directory, "reason": str(error)})

    def _release_idle(self) -> None:
        """Nothing was appended since the last checkpoint, so that all is on disk: give the descriptor back."""
        active = self._active
        if active.synced_bytes >= active.size_bytes:
            active.release()

    def _recovery_offset(self) -> int:
        return self._damaged_recovery_offset if self.damages else self.durable_offset

    def _write_snapshot(self) -> None:
        # Behind a snapshot the aborted transactions are found again in the log, before it only here.
        self._active.write_aborted_index()
        # Those of segments that the archive does not have yet go there with them.
        kept = self._view.base_offsets if self.config.is_archived else ()
        snapshots.write_snapshot(
            self._files, self.directory, self.end_offset, self.producers, kept_offsets=kept
        )
        self._snapshot_offset = self.end_offset

    def close(self) -> CleanStop:
        """Make everything durable and give the files back. LogReadOnly when it cannot be a clean stop."""
        try:
            if self.read_only_reason is not None:
                raise self._refusal()
            self.flush()
            self._active.write_indexes(is_final=True)
            if self._snapshot_offset != self.end_offset:
                self._write_snapshot()
            return CleanStop(
                start_offset=self.start_offset,
                end_offset=self.durable_offset,
                segment_bytes={segment.base_offset: segment.size_bytes for segment in self._view.segments},
            )
        finally:
            self._release()

    def _release(self) -> None:
        for segment in self._view.segments:
            segment.release()
        for _, segment in self._retired:
            segment.remove()
        self._retired.clear()
        self._read_positions.clear()
        if self.read_only_reason is None:
            self.read_only_reason = "it was closed"

    def delete(self) -> None:
        """Remove the partition for good. Its directory's name is free at once."""
        if self.read_only_reason is None:
            # Not through _become_read_only: that warns of trouble, and this is what somebody asked for.
            self.read_only_reason = "the partition was deleted"
        self._release()
        leftovers.remove_directory_tree(
            self._files, leftovers.set_directory_aside(self._files, self.directory)
        )
