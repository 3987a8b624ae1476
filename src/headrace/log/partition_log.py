"""One partition: batches are appended at its end, read from any offset, and survive crashes.

One thread owns a `PartitionLog` and is the only one to call it and its parts; any thread may use `reader`.
"""

from __future__ import annotations

import os
import struct

from msgspec import Struct

from headrace.clock import Clock
from headrace.log.archive.log_archive import LogArchive
from headrace.log.archive.partition_archive import PartitionArchive
from headrace.log.batch_check import (
    as_stored,
    check_batch,
    inspect,
    is_stored_unchanged,
    may_inspect,
    must_inspect,
)
from headrace.log.checkpoints import CleanStop, LogCheckpoint
from headrace.log.compaction.log_compaction import LogCompaction
from headrace.log.config import LogConfig
from headrace.log.damage import Damage
from headrace.log.epochs import LeaderEpochs
from headrace.log.errors import InvalidTransactionState, StorageFailed
from headrace.log.filesystem import FileSystem
from headrace.log.flush import LogFlusher
from headrace.log.folder import EventSink, PartitionFolder, log_event
from headrace.log.index import NO_TIMESTAMP
from headrace.log.log_retention import LogRetention
from headrace.log.opening import LogOpening
from headrace.log.producer_state import SEQUENCE_LIMIT, ProducerStates
from headrace.log.reader import LogReader
from headrace.log.recovery import leftovers
from headrace.log.recovery.snapshots import ProducerSnapshots
from headrace.log.retired import RetiredSegments
from headrace.log.rolling import SegmentRoller
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from headrace.log.transactions import end_transaction, last_stable_offset, marker_in
from headrace.records.batch import CONTROL_BIT, LOG_OVERHEAD_BYTES, TRANSACTIONAL_BIT, Buffer
from headrace.records.control import EndTransactionMarker

# Base offset, length and leader epoch: the part of a batch that the log writes itself.
_PREFIX = struct.Struct(">qii")
_pack_prefix = _PREFIX.pack
_PREFIX_BYTES = _PREFIX.size


class Appended(Struct, frozen=True):
    """The offsets of a batch in the log."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int = NO_TIMESTAMP
    duplicate: bool = False
    """The batch was in the log already; the offsets are those of its first append."""


class PartitionLog:
    """Created with `PartitionLog.open`."""

    def __init__(self, folder: PartitionFolder, partition_archive: PartitionArchive | None) -> None:
        self._folder = folder
        self.segments = Segments(folder)
        self.producers = ProducerStates(producer_ids_max=folder.config.producer_ids_max)
        self.epochs = LeaderEpochs(folder)
        self.flusher = LogFlusher(self.segments)
        self.retired = RetiredSegments(self.segments)
        self._snapshots = ProducerSnapshots(self.segments, self.producers)
        self._roller = SegmentRoller(self.segments, self._snapshots)
        self.archive = LogArchive(self.segments, partition_archive, self.producers, self.epochs, self.retired)
        self.retention = LogRetention(self.segments, self.archive, self.retired, self._roller)
        self.compaction = LogCompaction(self.segments, self.producers, self.retired)
        self.reader = LogReader(self.segments, self.archive)
        self._recovery_offset = 0
        self._is_stored_unchanged = is_stored_unchanged(folder.config)
        self._may_inspect = may_inspect(folder.config)

    @classmethod
    def open(
        cls,
        directory: str | os.PathLike[str],
        config: LogConfig,
        known: LogCheckpoint,
        *,
        files: FileSystem,
        clock: Clock,
        partition_archive: PartitionArchive | None = None,
        on_event: EventSink = log_event,
    ) -> PartitionLog:
        """Open the log in a directory, which is created if it is missing; `opening` has what is read and checked."""
        folder = PartitionFolder(os.fspath(directory), config, files=files, clock=clock, on_event=on_event)
        files.make_directory(folder.path)
        log = cls(folder, partition_archive)
        opening = LogOpening(log.segments, log.epochs, log.archive, log.compaction, log._snapshots)
        opening.run(leftovers.tidy(files, folder.path, on_event), known)
        log._recovery_offset = known.recovery_offset
        return log

    # --- state of its parts ---

    @property
    def directory(self) -> str:
        return self._folder.path

    @property
    def config(self) -> LogConfig:
        return self._folder.config

    @property
    def read_only_reason(self) -> str | None:
        """Why the log rejects writes; None while it accepts them."""
        return self._folder.read_only_reason

    @property
    def damages(self) -> tuple[Damage, ...]:
        return self._folder.damages

    @property
    def start_offset(self) -> int:
        return self.segments.start_offset

    @property
    def end_offset(self) -> int:
        return self.segments.end_offset

    @property
    def durable_offset(self) -> int:
        """Everything below is on disk."""
        return self.segments.durable_offset

    @property
    def last_stable_offset(self) -> int:
        """Every transaction below has ended: readers of committed data stop there."""
        return last_stable_offset(self.segments, self.producers)

    @property
    def leader_epoch(self) -> int:
        return self.epochs.current

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch not above the requested one, its end offset); (-1, -1) if the epoch is in the future."""
        return self.epochs.end_of(epoch, start_offset=self.start_offset, end_offset=self.end_offset)

    def reconfigure(self, config: LogConfig) -> None:
        self._folder.config = config
        self.producers.producer_ids_max = config.producer_ids_max
        self._is_stored_unchanged = is_stored_unchanged(config)
        self._may_inspect = may_inspect(config)
        self.archive.reconfigure()

    # --- appending ---

    def must_inspect(self, batch: Buffer) -> bool:
        """Whether a client's batch should pass `inspected_batch` in a thread before it is appended."""
        return self._may_inspect and must_inspect(batch, self._folder.config)

    def append(
        self, batch: Buffer, *, now_ms: int, from_client: bool = True, is_inspected: bool = False
    ) -> Appended:
        """Append one batch as it was received; raises the error for its producer.

        The caller may reuse the buffer afterwards: nothing keeps a view of it.
        """
        folder, segments, producers = self._folder, self.segments, self.producers
        if folder.read_only_reason is not None:
            raise folder.read_only_error()
        config = folder.config
        header = check_batch(batch, config, now_ms, from_client=from_client)
        if self._may_inspect and not is_inspected:
            batch = inspect(batch, config, from_client=from_client)
        _, _, _, _, _, attributes, delta, base_timestamp_ms, max_timestamp_ms, producer_id, _, _, _ = header
        marker: EndTransactionMarker | None = None
        if producer_id >= 0 and attributes & CONTROL_BIT:
            producers.check_marker(producer_id, header[10])
            marker = marker_in(batch)
        elif producer_id >= 0:
            if producers.open_transactions and not attributes & TRANSACTIONAL_BIT:
                self._reject_outside_transaction(producer_id)
            base_sequence = header[11]
            last_sequence = (base_sequence + delta) % SEQUENCE_LIMIT
            stored = producers.check(producer_id, header[10], base_sequence, last_sequence, header[4])
            if stored is not None:
                return Appended(stored.base_offset, stored.last_offset, NO_TIMESTAMP, True)
        append_time_ms = NO_TIMESTAMP
        if not self._is_stored_unchanged:
            batch = as_stored(batch, config, now_ms)
            if config.timestamp_type == "LogAppendTime":
                append_time_ms = max_timestamp_ms = now_ms
        size = len(batch)
        base_offset = segments.end_offset
        last_offset = base_offset + delta
        segment = segments.view.segments[-1]
        if segment.extent[1] and self._roller.is_due(segment, size, last_offset, max_timestamp_ms, now_ms):
            segment = self._roller.roll()
        prefix = _pack_prefix(base_offset, size - LOG_OVERHEAD_BYTES, self.epochs.current)
        parts = (prefix, memoryview(batch)[_PREFIX_BYTES:])
        try:
            segment.append(parts, size, last_offset, base_timestamp_ms, max_timestamp_ms)
        except OSError as error:
            raise self._append_failed(segment, error) from error
        segments.end_offset = last_offset + 1
        if marker is not None:
            end_transaction(
                producers,
                segment,
                marker,
                producer_id,
                header[10],
                marker_offset=last_offset,
                now_ms=now_ms,
            )
        elif producer_id >= 0 and not attributes & CONTROL_BIT:
            producers.update(
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
                producers.begin_transaction(producer_id, base_offset)
        return Appended(base_offset, last_offset, append_time_ms)

    def _reject_outside_transaction(self, producer_id: int) -> None:
        if producer_id in self.producers.open_transactions:
            raise InvalidTransactionState(
                f"producer {producer_id} has an open transaction in {self.directory} and wrote outside of it",
                hint="end the transaction first",
            )

    def _append_failed(self, segment: Segment, error: OSError) -> StorageFailed:
        """Truncate what was partly written, so that the next append can be tried."""
        try:
            if segment.is_open:  # otherwise it could not be opened, and nothing was written
                segment.truncate()
        except OSError as second:
            self._folder.become_read_only(
                f"a write to {segment.path} failed ({error}) and could not be undone ({second})"
            )
        return self._folder.storage_failed(f"writing to {segment.path} failed: {error}")

    # --- checkpoints, closing ---

    def flush(self) -> None:
        """Make everything durable now, in this thread."""
        self.flusher.flush()

    def checkpoint(self, now_ms: int) -> int:
        """Write indexes and producer snapshot; the offset from which recovery has to check the log."""
        self.retired.remove_due(now_ms)
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        if self.read_only_reason is None:
            if self._snapshots.is_current:
                self._release_idle()
            else:
                self._snapshots.try_write()
        # With damage, the next start has to find it again: with the same recovery point it does.
        return self._recovery_offset if self.damages else self.durable_offset

    def _release_idle(self) -> None:
        """Nothing was appended since the last checkpoint: release the file descriptor."""
        active = self.segments.active
        if active.synced_bytes >= active.size_bytes:
            active.release()

    def close(self) -> CleanStop:
        """Make everything durable and release the files. LogReadOnly if it cannot be a clean stop."""
        try:
            if self.read_only_reason is not None:
                raise self._folder.read_only_error()
            self.flush()
            segments = self.segments
            segments.active.write_indexes(is_final=True)
            if not self._snapshots.is_current:
                self._snapshots.write()
            return CleanStop(
                start_offset=segments.start_offset,
                end_offset=segments.durable_offset,
                segment_bytes={segment.base_offset: segment.size_bytes for segment in segments.view.segments},
            )
        finally:
            self._release("it was closed")

    def _release(self, reason: str) -> None:
        for segment in self.segments.view.segments:
            segment.release()
        self.retired.remove_all()
        self.reader.drop_positions()
        if self.read_only_reason is None:
            # Not with become_read_only, which reports a failure: this is a normal stop.
            self._folder.read_only_reason = reason

    def delete(self) -> None:
        """Remove the partition. Its directory's name can be reused immediately."""
        self._release("the partition was deleted")
        files = self._folder.files
        leftovers.remove_directory_tree(files, leftovers.rename_for_deletion(files, self.directory))
