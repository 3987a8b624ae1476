"""Batches as producers send them, and logs to put them into."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace.log.checkpoints import CleanStop, LogCheckpoint
from headrace.log.config import LogConfig
from headrace.log.filesystem import DiskFileSystem, FileSystem
from headrace.log.folder import PartitionFolder
from headrace.log.partition_log import PartitionLog
from headrace.log.segment import Segment
from headrace.log.segments import Segments
from headrace.records.batch import iterate_headers
from headrace.records.compression import Codec
from headrace.records.record import Record, decode_records, encode_batch
from headrace.testing.manual_clock import ManualClock

NOW_MS = 1_700_000_000_000


class NotSyncing(DiskFileSystem):
    """For tests that open thousands of logs and never lose power."""

    def sync(self, fd: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass

    def write_whole(self, path: str, content: bytes, *, durable: bool = True) -> None:
        super().write_whole(path, content, durable=False)


def batch(
    *values: bytes,
    key: bytes | None = None,
    timestamp_ms: int = NOW_MS,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytes:
    records = [
        Record(offset=number, timestamp_ms=timestamp_ms, key=key, value=value, headers=())
        for number, value in enumerate(values)
    ]
    return encode_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def open_log(
    directory: Path,
    config: LogConfig | None = None,
    *,
    files: FileSystem | None = None,
    was_clean: bool = False,
    recovery_offset: int = 0,
    start_offset: int | None = None,
    clean_stop: CleanStop | None = None,
    events: list[tuple[str, Mapping[str, object]]] | None = None,
    clock: ManualClock | None = None,
) -> PartitionLog:
    seen = events if events is not None else []
    return PartitionLog.open(
        directory,
        config or LogConfig(),
        LogCheckpoint(
            was_clean=was_clean,
            recovery_offset=recovery_offset,
            start_offset=start_offset,
            clean_stop=clean_stop,
        ),
        files=files or DiskFileSystem(),
        clock=clock or ManualClock(NOW_MS),
        on_event=lambda name, fields: seen.append((name, fields)),
    )


def open_folder(
    directory: Path,
    config: LogConfig | None = None,
    *,
    files: FileSystem | None = None,
    events: list[tuple[str, Mapping[str, object]]] | None = None,
) -> PartitionFolder:
    """The folder of a partition, for tests of one part of a log."""
    seen = events if events is not None else []
    return PartitionFolder(
        str(directory),
        config or LogConfig(),
        files=files or DiskFileSystem(),
        clock=ManualClock(NOW_MS),
        on_event=lambda name, fields: seen.append((name, fields)),
    )


def write_segment(segments: Segments, base_offset: int, count: int) -> Segment:
    """A segment of batches with one record each, a millisecond apart."""
    segment = segments.create(base_offset)
    for offset in range(base_offset, base_offset + count):
        stored = with_offset(batch(b"%d" % offset, timestamp_ms=NOW_MS + offset), offset)
        segment.append((b"", stored), len(stored), offset, NOW_MS + offset, NOW_MS + offset)
    return segment


def with_offset(stored: bytes, offset: int, *, leader_epoch: int = 0) -> bytes:
    """A batch as the log stores it at an offset."""
    return offset.to_bytes(8, "big") + stored[8:12] + leader_epoch.to_bytes(4, "big") + stored[16:]


def read_all(log: PartitionLog, offset: int | None = None, *, bytes_max: int = 1 << 20) -> list[Record]:
    """Every record from an offset on, read as a consumer does."""
    records: list[Record] = []
    at = log.start_offset if offset is None else offset
    while at < log.end_offset:
        found = bytes(log.reader.read(at, bytes_max=bytes_max, end_offset=log.end_offset, at_least_one=True))
        if not found:
            break
        for position, header in iterate_headers(found):
            whole = found[position : position + header.size_bytes]
            records.extend(
                record for record in decode_records(whole, bytes_max=1 << 24) if record.offset >= at
            )
            next_offset = header.next_offset
        assert next_offset > at
        at = next_offset
    return records


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]
