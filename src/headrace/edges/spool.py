"""Events on disk until the broker has them: the policy `buffer`.

A spool is one partition log (`headrace.log`): record batches with checksums, a torn tail is truncated, a failed write
changes nothing. An event is on disk before it counts as received, so it survives `kill -9`; what was not flushed is
lost with the power, at most the last `FLUSH_S`. The position, the first event that the broker has not acknowledged, is
written every `POSITION_S`. After `kill -9`, events that were acknowledged since then are delivered again: at least
once. A clean stop writes it, so nothing is repeated.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from headrace.clock import Clock
from headrace.edges.errors import BadEdge
from headrace.edges.event import Entry, Event, Fate
from headrace.edges.room import Room
from headrace.files import replace_text
from headrace.log.checkpoints import LogCheckpoint
from headrace.log.config import INT64_MAX, NO_LIMIT, LogConfig
from headrace.log.errors import LogReadOnly, StorageFailed
from headrace.log.filesystem import FileSystem
from headrace.log.partition_log import PartitionLog
from headrace.process_lock import ProcessLock
from headrace.records.batch import iterate_headers
from headrace.records.record import Record, encode_batch, iterate_records

FLUSH_S = 1.0
POSITION_S = 0.1

SEGMENTS = 8
"""A file is deleted when all of its events are delivered: up to one part in so many is events that are."""

SEGMENT_BYTES_MIN = 64 * 1024
SEGMENT_BYTES_MAX = 1 << 30
READ_BYTES = 1 << 20
EVENT_BYTES_MAX = 1 << 30
"""Of a record in the spool: the intake has bounded the event before."""

_LOG_FOLDER = "events-0"
_POSITION = "position"


class Spool:
    """A queue on disk, bounded in bytes. `on_taken` gets how many were taken, once they are on disk."""

    def __init__(
        self,
        folder: Path,
        *,
        bytes_max: int,
        on_taken: Callable[[int], None],
        files: FileSystem,
        clock: Clock,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lock_file = ProcessLock(folder / "lock")
        if not self._lock_file.take():
            raise BadEdge(
                f"the buffer {folder} is used by another process",
                hint="each edge needs a buffer of its own: set another name",
            )
        self._bytes_max = bytes_max
        self._on_taken = on_taken
        self._clock = clock
        self._position_file = folder / _POSITION
        self._log = self._open(folder, files)
        self._position = max(self._read_position(), self._log.start_offset)
        if (
            self._position > self._log.end_offset
        ):  # the power failed: the position was on disk, the events were not
            self._position = self._log.end_offset
        self._next = self._position
        self._written_position = self._position
        self._written_s = self._flushed_s = clock.monotonic_s()
        self._changed = threading.Condition()
        self.memory_bytes = 0
        self.room = Room()
        self.storage_error = ""
        self.replayed = self._log.end_offset - self._position

    def _open(self, folder: Path, files: FileSystem) -> PartitionLog:
        config = LogConfig(
            segment_bytes_max=min(max(self._bytes_max // SEGMENTS, SEGMENT_BYTES_MIN), SEGMENT_BYTES_MAX),
            batch_bytes_max=EVENT_BYTES_MAX,
            timestamp_after_max_ms=INT64_MAX,
            retention_ms=NO_LIMIT,
            file_delete_delay_ms=0,
        )
        log = PartitionLog.open(folder / _LOG_FOLDER, config, LogCheckpoint(), files=files, clock=self._clock)
        if log.read_only_reason is not None:
            raise BadEdge(
                f"the buffer {log.directory} is damaged: {log.read_only_reason}",
                hint=f"`headrace log repair {log.directory}` keeps every valid batch",
            )
        return log

    def _read_position(self) -> int:
        try:
            return int(self._position_file.read_text())
        except (FileNotFoundError, ValueError):
            return 0

    @property
    def buffered_bytes(self) -> int:
        return self._log.segments.size_bytes

    def offer(self, entries: Sequence[Entry]) -> bool:
        """Whether the entries are on disk, all or none."""
        records = [_as_record(entry, number) for number, entry in enumerate(entries)]
        batch = encode_batch(records)
        with self._changed:
            is_full = self._position < self._log.end_offset and (
                self.buffered_bytes + len(batch) > self._bytes_max
            )
            if is_full or not self._append(batch):
                self.room.miss()
                return False
            self._on_taken(len(entries))
            self._changed.notify()
        for entry in entries:
            entry.report(Fate.BUFFERED)
        return True

    def _append(self, batch: bytes) -> bool:
        try:
            self._log.append(batch, now_ms=self._clock.now_ms(), from_client=False)
        except (StorageFailed, LogReadOnly) as error:
            self.storage_error = error.message
            return False
        self.storage_error = ""
        return True

    def left(self) -> Iterator[Entry]:
        """The events of an earlier run. Call it before anything is taken."""
        place, end_offset = self._position, self._log.end_offset
        while place < end_offset:
            entries = self._read(place, READ_BYTES, end_offset)
            yield from entries
            place = entries[-1].place + 1

    def take(self, bytes_max: int, timeout_s: float) -> list[Entry]:
        """The next events, at least one and then about `bytes_max` of memory, up to the end of a batch; empty if none
        arrives in time."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._next < self._log.end_offset, timeout_s):
                return []
            end_offset = self._log.end_offset
        taken = self._read(self._next, min(bytes_max, READ_BYTES), end_offset)
        self._next = taken[-1].place + 1
        return taken

    def _read(self, place: int, bytes_max: int, end_offset: int) -> list[Entry]:
        batches = self._log.reader.read(place, bytes_max=bytes_max, end_offset=end_offset, at_least_one=True)
        entries: list[Entry] = []
        memory_bytes = 0
        for position, header in iterate_headers(batches):
            batch = memoryview(batches)[position : position + header.size_bytes]
            for record in iterate_records(batch, bytes_max=EVENT_BYTES_MAX):
                if record.offset >= place:
                    entries.append(_as_entry(record))
                    memory_bytes += entries[-1].memory_bytes
            # Small events take many times their bytes on disk.
            if entries and memory_bytes >= bytes_max:
                break
        return entries

    def settled(self, place: int) -> None:
        """The broker has reported on all events before `place`."""
        self._position = place

    def maintain(self) -> None:
        """Write the position, delete files of delivered events, flush: what is due."""
        now_s = self._clock.monotonic_s()
        if self._position != self._written_position and now_s - self._written_s >= POSITION_S:
            self._write_position()
            self._written_s = now_s
        if now_s - self._flushed_s >= FLUSH_S:
            self._flush()
            self._flushed_s = now_s

    def _write_position(self) -> None:
        position = self._position
        # A full disk leaves the old position: then more is delivered again after a crash.
        with contextlib.suppress(OSError):
            replace_text(self._position_file, f"{position}\n")
            self._written_position = position
        with self._changed:
            before = self._log.segments.start_offset
            self._log.retention.delete_records_before(position)
            removed = self._log.retired.remove_due(self._clock.now_ms())
            has_room = removed or self.buffered_bytes <= self._bytes_max // 2 or before == position
        if has_room:
            self.room.announce()

    def _flush(self) -> None:
        """Without the lock while the disk works: events arrive meanwhile."""
        with contextlib.suppress(OSError):  # files could not be opened: the next flush tries again
            with self._changed:
                flush = self._log.flusher.begin()
            try:
                flush.sync()
            except OSError as error:
                with self._changed:
                    self._log.flusher.fail(error)
                    self.storage_error = f"flushing {self._log.directory} failed: {error}"
                return
            with self._changed:
                self._log.flusher.finish(flush)
        if self.storage_error:
            self.room.announce()  # the disk may have room again: let an offer find out

    def close(self) -> list[Entry]:
        """Nothing is lost: what is left is delivered by the next run."""
        self._write_position()
        try:
            if self._log.read_only_reason is None:
                self._log.close()
        finally:
            self._lock_file.release()
        return []


def _as_record(entry: Entry, number: int) -> Record:
    event = entry.event
    return Record(
        offset=number,
        timestamp_ms=entry.timestamp_ms,
        key=event.key,
        value=event.value,
        headers=((event.topic, None), *event.headers),
    )


def _as_entry(record: Record) -> Entry:
    (topic, _), *headers = record.headers
    event = Event(topic=topic, value=record.value, key=record.key, headers=tuple(headers))
    return Entry(
        event=event,
        memory_bytes=event.memory_bytes,
        timestamp_ms=record.timestamp_ms,
        place=record.offset,
    )
