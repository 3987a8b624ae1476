"""One partition: batches are appended at its end, read from any offset, and survive crashes.

One thread owns a `PartitionLog` and is the only one to call it and its parts; any thread may use `reader`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence

from msgspec import Struct

from headrace.clock import Clock
from headrace.errors import HeadraceError
from headrace.log.archive.log_archive import LogArchive
from headrace.log.archive.partition_archive import PartitionArchive
from headrace.log.batch_check import (
    HeaderFields,
    as_stored,
    check_batch,
    follows,
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
from headrace.log.segment import Segment, Written
from headrace.log.segments import Segments
from headrace.log.transactions import end_transaction, last_stable_offset, marker_in
from headrace.records.batch import CONTROL_BIT, LOG_OVERHEAD_BYTES, TRANSACTIONAL_BIT, Buffer
from headrace.records.control import EndTransactionMarker

# Base offset, length and leader epoch: the part of a batch that the log writes itself.
_PREFIX = struct.Struct(">qii")
_pack_prefix = _PREFIX.pack
_PREFIX_BYTES = _PREFIX.size

# Batches that one system call writes: each has two parts, and Linux takes 1,024.
RUN_BATCHES_MAX = 256


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
        folder = self._folder
        if folder.read_only_reason is not None:
            raise folder.read_only_error()
        header = check_batch(batch, folder.config, now_ms, from_client=from_client)
        if self._may_inspect and not is_inspected:
            batch = inspect(batch, folder.config, from_client=from_client)
        return self._append_checked(batch, header, now_ms)

    def append_all(self, batches: Sequence[Buffer], *, now_ms: int) -> list[Appended | HeadraceError]:
        """What `append` returns or raises for each batch of clients, in turn. Batches that follow each other in the
        sequence of one producer are written by one system call, all or none of them.
        """
        outcomes: list[Appended | HeadraceError] = []
        run: list[tuple[Buffer, HeaderFields]] = []
        for batch in batches:
            try:
                if self._folder.read_only_reason is not None:
                    raise self._folder.read_only_error()
                header = check_batch(batch, self._folder.config, now_ms, from_client=True)
            except HeadraceError as error:
                outcomes += self._append_run(run, now_ms)
                outcomes.append(error)
                run = []
                continue
            if run and not (len(run) < RUN_BATCHES_MAX and follows(header, run[-1][1])):
                outcomes += self._append_run(run, now_ms)
                run = []
            run.append((batch, header))
        outcomes += self._append_run(run, now_ms)
        return outcomes

    def _append_run(
        self, run: Sequence[tuple[Buffer, HeaderFields]], now_ms: int
    ) -> Sequence[Appended | HeadraceError]:
        return (self._append_together(run, now_ms) if len(run) > 1 else None) or [
            self._append_or_error(batch, header, now_ms) for batch, header in run
        ]

    def _append_or_error(self, batch: Buffer, header: HeaderFields, now_ms: int) -> Appended | HeadraceError:
        try:
            if self._folder.read_only_reason is not None:
                raise self._folder.read_only_error()
            if self._may_inspect:
                batch = inspect(batch, self._folder.config, from_client=True)
            return self._append_checked(batch, header, now_ms)
        except HeadraceError as error:
            return error

    def _append_together(
        self, run: Sequence[tuple[Buffer, HeaderFields]], now_ms: int
    ) -> list[Appended] | None:
        """Append batches of which each follows the one before; None if nothing was appended, and they have to be
        appended one by one: because they need more than a write, or because this write failed.
        """
        segments, producers = self.segments, self.producers
        segment, first = segments.view.segments[-1], run[0][1]
        if self._may_inspect or not self._is_stored_unchanged or producers.open_transactions:
            return None
        if first[9] >= 0 and not producers.is_next(first[9], first[10], first[11]):
            return None
        base_offset, epoch = segments.end_offset, self.epochs.current
        parts: list[Buffer] = []
        written: list[Written] = []
        size = 0
        max_timestamp_ms = NO_TIMESTAMP
        for batch, header in run:
            batch_bytes = len(batch)
            parts.append(_pack_prefix(base_offset, batch_bytes - LOG_OVERHEAD_BYTES, epoch))
            parts.append(memoryview(batch)[_PREFIX_BYTES:])
            written.append((batch_bytes, base_offset + header[6], header[7], header[8]))
            base_offset += header[6] + 1
            size += batch_bytes
            max_timestamp_ms = max(max_timestamp_ms, header[8])
        if not segment.extent[1] or self._roller.is_due(
            segment, size, base_offset - 1, max_timestamp_ms, now_ms, entries=len(run)
        ):
            return None
        try:
            segment.append_all(parts, written)
        except OSError as error:
            self._truncate_failed(segment, error)
            return None
        segments.end_offset = base_offset
        return [
            self._note_appended(header, last_offset, now_ms)
            for (_, header), (_, last_offset, _, _) in zip(run, written, strict=True)
        ]

    def _note_appended(self, header: HeaderFields, last_offset: int, now_ms: int) -> Appended:
        base_offset = last_offset - header[6]
        producer_id, base_sequence = header[9], header[11]
        if producer_id >= 0:
            last_sequence = (base_sequence + header[6]) % SEQUENCE_LIMIT
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
        return Appended(base_offset, last_offset)

    def _append_checked(self, batch: Buffer, header: HeaderFields, now_ms: int) -> Appended:
        segments, producers, config = self.segments, self.producers, self._folder.config
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
        self._truncate_failed(segment, error)
        return self._folder.storage_failed(f"writing to {segment.path} failed: {error}")

    def _truncate_failed(self, segment: Segment, error: OSError) -> None:
        """Truncate what was partly written, so that the next append can be tried."""
        try:
            if segment.is_open:  # otherwise it could not be opened, and nothing was written
                segment.truncate()
        except OSError as second:
            self._folder.become_read_only(
                f"a write to {segment.path} failed ({error}) and could not be undone ({second})"
            )

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
