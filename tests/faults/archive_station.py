"""Topics and their archiver without a broker around them, on a disk and an archive that a test can cut off together."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.broker.archive_health import ArchiveHealth, WatchedStore
from headrace.broker.archiver import Archiver
from headrace.broker.runtime import Runtime
from headrace.broker.settings import BrokerSettings
from headrace.broker.topics import Topics
from headrace.log.archive.archived_files import Archive
from headrace.log.archive.cache import ArchiveCache
from headrace.log.archive.fsspec_store import FsspecStore
from headrace.log.archive.manifest import decode_manifest
from headrace.log.archive.object_names import MANIFEST_SUFFIX, object_stem
from headrace.log.partition_log import PartitionLog
from headrace.settings import make
from headrace.testing.failing_archive import FailingArchive
from headrace.testing.failing_filesystem import FailingFileSystem, PowerLost
from headrace.testing.manual_clock import ManualClock
from tests.log.batches import NOW_MS, NotSyncing, batch

TOPIC = "t"
RECORDS = 24
CONFIGS = {
    "segment.bytes": "400",
    "index.interval.bytes": "100",
    "file.delete.delay.ms": "0",
    "retention.ms": "-1",
    "remote.storage.enable": "true",
    "local.retention.bytes": "0",
}


class Station:
    """`power.lose_power_at(n)` stops disk and archive before their n-th change from then on."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "archive"
        self.root.mkdir(exist_ok=True)
        self.power = FailingFileSystem(files=NotSyncing())
        # Not a folder store: that one is careful, and here an object that was cut off is seen as it is.
        self.store = FailingArchive(store=FsspecStore(f"file://{self.root}"), power=self.power)
        self.clock = ManualClock(NOW_MS)
        settings = make(
            BrokerSettings,
            {"data_dir": folder / "data", "archive_chunk_bytes": 1024, "archive_upload_threads": 1},
        )
        (folder / "data").mkdir(exist_ok=True)
        self.health = ArchiveHealth(self.clock)
        cache = ArchiveCache(str(folder / "data" / "cache"), bytes_max=1 << 20)
        shared = Archive(WatchedStore(self.store, self.health), cache, report=self.health.corrupt)
        self._loop = asyncio.new_event_loop()
        runtime = Runtime(settings, self.power, self.clock, self._loop)
        self.topics = Topics(runtime, shared)
        self.topics.load()
        self.archiver = Archiver(runtime, topics=self.topics, shared=shared, health=self.health)

    @property
    def log(self) -> PartitionLog:
        partition = self.topics.partition(TOPIC, 0)
        assert partition is not None
        return partition.log

    def fill(self) -> None:
        self.topics.create(TOPIC, 1, CONFIGS)
        for number in range(RECORDS):
            self.log.append(batch(b"%d" % number), now_ms=NOW_MS)
        self.log.flush()
        self.topics.checkpoint()

    def tend(self) -> None:
        self._loop.run_until_complete(self.archiver.tend())
        for partition in self.topics.partitions():
            partition.log.retired.remove_due(self.clock.now_ms())

    def objects(self) -> set[str]:
        return {name for name, _ in self.store.store.list("")}

    def expected_objects(self) -> set[str]:
        """Those that the manifests of the segments that count speak of, and nothing else."""
        own = self.log.archive.partition_archive
        assert own is not None
        names = set()
        for entry in self.log.archive.entries:
            stem = object_stem(own.prefix, entry.base_offset)
            manifest = decode_manifest(self.store.store.read(stem + MANIFEST_SUFFIX))
            names |= {stem + MANIFEST_SUFFIX, *(stem + suffix for suffix in manifest.files)}
        return names

    def end(self) -> None:
        """As a crash does: nothing is flushed or sent."""
        self.archiver.close()
        self._loop.close()


@contextmanager
def station(folder: Path) -> Iterator[Station]:
    """The power may go while it is used."""
    opened = Station(folder)
    try:
        with suppress(PowerLost):
            yield opened
    finally:
        opened.end()


def copy_of(prepared: Path, target: Path) -> Path:
    shutil.copytree(prepared, target)
    return target
