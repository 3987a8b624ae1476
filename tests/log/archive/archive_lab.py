"""A partition with an archive, without a broker around it: what its chore does, step by step in this thread."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from headrace.log.archive.archived_files import Archive
from headrace.log.archive.archived_segments import ArchivedSegment
from headrace.log.archive.cache import ArchiveCache
from headrace.log.archive.object_names import object_stem
from headrace.log.archive.partition_archive import PartitionArchive
from headrace.log.archive.store import ArchiveStore, FolderStore
from headrace.log.checkpoints import LogCheckpoint
from headrace.log.config import LogConfig
from headrace.log.errors import CorruptArchive
from headrace.log.filesystem import DiskFileSystem, FileSystem
from headrace.log.partition_log import PartitionLog
from headrace.records.control import EndTransactionMarker, MarkerType, encode_marker_batch
from headrace.records.record import Record, encode_batch
from headrace.testing.manual_clock import ManualClock
from tests.log.batches import NOW_MS, batch

CONFIG = LogConfig(
    segment_bytes_max=400, index_interval_bytes=100, file_delete_delay_ms=0, is_archived=True, retention_ms=-1
)


class ArchiveLab:
    def __init__(
        self,
        folder: Path,
        config: LogConfig = CONFIG,
        *,
        store: ArchiveStore | None = None,
        files: FileSystem | None = None,
        cache_bytes_max: int = 1 << 20,
        chunk_bytes: int = 150,
    ) -> None:
        self.root = folder / "archive"
        self.root.mkdir(exist_ok=True)
        self.directory = folder / "t-0"
        self.store = store or FolderStore(str(self.root))
        self.files = files or DiskFileSystem()
        self.clock = ManualClock(NOW_MS)
        self.chunk_bytes = chunk_bytes
        self.corrupt: list[CorruptArchive] = []
        self.cache = ArchiveCache(str(folder / "cache"), bytes_max=cache_bytes_max)
        self.shared = Archive(self.store, self.cache, report=self.corrupt.append)
        self.log = self.open(config)

    def open(self, config: LogConfig, *, start_offset: int | None = None) -> PartitionLog:
        self.own = PartitionArchive(self.shared, topic="t", topic_id="some-id", partition=0)
        self.log = PartitionLog.open(
            self.directory,
            config,
            LogCheckpoint(start_offset=start_offset),
            files=self.files,
            clock=self.clock,
            partition_archive=self.own,
        )
        return self.log

    def append(self, count: int, *, timestamp_ms: int = NOW_MS) -> None:
        for _ in range(count):
            self.log.append(
                batch(b"%d" % self.log.end_offset, timestamp_ms=timestamp_ms), now_ms=timestamp_ms
            )
        self.log.flush()

    def copy(self) -> int:
        """Archive the segments that are due; the number of them."""
        segments = self.log.archive.segments_to_copy()
        for segment in segments:
            entry = self.log.archive.copy(
                segment, chunk_bytes=self.chunk_bytes, now_ms=NOW_MS, should_stop=lambda: False
            ).run(self.store)
            self.own.write_list(self.files, str(self.directory), (*self.log.archive.entries, entry))
            self.log.archive.add([entry])
        return len(segments)

    def archived_to_the_end(self, records: int = 30, **times: int) -> PartitionLog:
        """A log whose closed segments are in the archive only."""
        self.append(records, **times)
        assert self.copy() > 2
        self.log.reconfigure(local_only_newest(self.log.config))
        assert self.log.archive.remove_local_copies(NOW_MS) > 2
        self.log.retired.remove_due(NOW_MS)
        assert len(self.log.segments) == 1
        return self.log

    def objects(self) -> list[str]:
        return sorted(name for name, _ in self.store.list(self.own.prefix))

    def object(self, entry: ArchivedSegment, suffix: str) -> Path:
        return self.root / (object_stem(self.own.prefix, entry.base_offset) + suffix)


def local_only_newest(config: LogConfig) -> LogConfig:
    return replace(config, local_retention_bytes=0)


def numbers(start: int, end: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(start, end)]


def transactional(sequence: int) -> bytes:
    record = Record(offset=0, timestamp_ms=NOW_MS, key=None, value=b"aborted", headers=())
    return encode_batch(
        [record], producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True
    )


def marker(kind: MarkerType) -> bytes:
    return encode_marker_batch(
        EndTransactionMarker(type=kind, coordinator_epoch=0),
        producer_id=7,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
    )
