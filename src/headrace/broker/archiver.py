"""The archive chore: copies closed segments to the archive, deletes local copies, and deletes expired segments.

The order of its steps is what makes it safe to be interrupted anywhere. A segment is copied, read back and compared;
its manifest is written; the partition's list gets an entry; only then may the local copy be deleted. An expired segment
is removed from the list first, then its manifest is deleted, then the rest. Objects that an interruption leaves in the
archive but not in the list are found at the next start, and overwritten or deleted.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakSet

from headrace.broker.archive_health import ArchiveHealth, WatchedStore
from headrace.broker.partition import Partition
from headrace.broker.runtime import Runtime
from headrace.broker.settings import BrokerSettings
from headrace.broker.topics import Topics
from headrace.log.archive.archived_files import Archive
from headrace.log.archive.archived_segments import ArchivedSegment, entry_of
from headrace.log.archive.cache import ArchiveCache
from headrace.log.archive.copying import CopyDiffers, Interrupted
from headrace.log.archive.manifest import decode_manifest
from headrace.log.archive.object_names import MANIFEST_SUFFIX, base_offset_of, object_names
from headrace.log.archive.partition_archive import PartitionArchive, aborted_path
from headrace.log.errors import ArchiveUnreachable, InvalidFile, LogError
from headrace.log.partition_log import PartitionLog
from headrace.log.segment_names import ABORTED_INDEX_SUFFIX
from headrace.records.batch import crc32c

logger = logging.getLogger(__name__)

CACHE_FOLDER = "archive-cache"
# The back-off has reached its limit long before that; more doublings would overflow.
DOUBLINGS_MAX = 20
Result = TypeVar("Result")


def make_archive(settings: BrokerSettings, health: ArchiveHealth) -> Archive:
    """The archive of the settings. Its cache is empty at first."""
    cache = ArchiveCache(
        os.path.join(settings.data_dir, CACHE_FOLDER), bytes_max=settings.archive_cache_bytes_max
    )
    cache.clear()
    store = None
    if settings.archive_address is not None:
        from headrace.log.archive.fsspec_store import open_store  # most brokers have no archive

        store = WatchedStore(open_store(settings.archive_address), health)
    return Archive(store, cache, report=health.corrupt)


class Archiver:
    def __init__(self, runtime: Runtime, *, topics: Topics, shared: Archive, health: ArchiveHealth) -> None:
        self._settings = runtime.settings
        self._topics = topics
        self._files = runtime.files
        self._clock = runtime.clock
        self._loop = runtime.loop
        self._reconciled: WeakSet[PartitionArchive] = WeakSet()
        self._failed_last: Partition | None = None
        self._failed_passes = 0
        self._retry_at_s = 0.0
        self._is_closing = False
        self.shared = shared
        self.health = health
        self.copied_segments = 0
        self.copied_bytes = 0
        self.deleted_segments = 0
        self.local_copies_removed = 0
        self._threads = ThreadPoolExecutor(
            self._settings.archive_upload_threads, thread_name_prefix="archiver"
        )

    def close(self) -> None:
        """Copies in progress stop at their next piece, and start again after the next start."""
        self._is_closing = True
        self._threads.shutdown(wait=True, cancel_futures=True)

    def waiting(self) -> tuple[int, int]:
        """The number of segments that wait to be archived, and their bytes."""
        waiting = [
            segment
            for partition in list(self._topics.partitions())
            if partition.log.config.is_archived
            for segment in partition.log.archive.segments_to_copy()
        ]
        return len(waiting), sum(segment.size_bytes for segment in waiting)

    # One pass

    async def tend(self) -> None:
        """Archive and delete what is due; after failures with a back-off that doubles."""
        if not self.shared.is_configured or self._clock.monotonic_s() < self._retry_at_s:
            return
        try:
            await self._delete_topics()
            await self._tend_partitions()
        except (ArchiveUnreachable, CopyDiffers) as error:
            if isinstance(error, CopyDiffers):
                logger.error("a copy in the archive differs from its segment", extra={"reason": str(error)})
                self.health.failures += 1
            pause_ms = self._settings.archive_interval_ms << min(self._failed_passes, DOUBLINGS_MAX)
            self._retry_at_s = (
                self._clock.monotonic_s() + min(pause_ms, self._settings.archive_retry_ms_max) / 1000
            )
            self._failed_passes += 1
        except Interrupted:
            return
        else:
            self._failed_passes = 0

    async def _tend_partitions(self) -> None:
        """Several partitions at a time. The first failure ends the pass; the next one starts after that partition."""
        waiting = deque(partition for partition in self._topics.partitions() if partition.has_archive)
        if self._failed_last is not None and self._failed_last in waiting:
            waiting.rotate(-waiting.index(self._failed_last) - 1)
        failures: list[BaseException] = []

        async def work() -> None:
            while waiting and not failures:
                partition = waiting.popleft()
                try:
                    await self._tend_partition(partition)
                except Exception as error:
                    # The other partitions have their turn at the next pass.
                    self._failed_last = partition
                    if not partition.is_deleted:
                        failures.append(error)

        await asyncio.gather(*(work() for _ in range(self._settings.archive_upload_threads)))
        if failures:
            raise failures[0]

    async def _tend_partition(self, partition: Partition) -> None:
        log = partition.log
        own = log.archive.partition_archive
        assert own is not None
        if own not in self._reconciled:
            await self._reconcile(partition, own)
        await self._copy_segments(partition, own)
        removed = log.archive.remove_local_copies(self._clock.now_ms())
        if removed:
            self.local_copies_removed += removed
            logger.info(
                "local copies of archived segments removed",
                extra={
                    "partition": str(partition),
                    "segments": removed,
                    "local_start_offset": log.segments.local_start_offset,
                },
            )
        await self._delete_expired(partition, own)
        if not log.config.is_archived and own in self._reconciled:
            # Archiving was switched off, and nothing is left in the archive.
            own.remove_list(self._files, log.directory)

    async def _copy_segments(self, partition: Partition, own: PartitionArchive) -> None:
        log = partition.log
        for segment in log.archive.segments_to_copy():
            copy = log.archive.copy(
                segment,
                chunk_bytes=self._settings.archive_chunk_bytes,
                now_ms=self._clock.now_ms(),
                should_stop=lambda: self._is_closing,
            )
            try:
                entry = await self._in_thread(copy.run, self.shared.store)
            except (LogError, OSError):
                if segment.is_retired:
                    # Retention was faster. The next pass finds the copy in no list, and deletes it as garbage.
                    self._reconciled.discard(own)
                    return
                raise
            if partition.is_deleted or not log.config.is_archived:
                self._reconciled.discard(own)
                return
            while own.listed != log.archive.entries:
                # Records were deleted during the copy. A list without their segments would forget the objects.
                await self._delete_expired(partition, own)
            await self._write_list(partition, own, (*log.archive.entries, entry))
            log.archive.add([entry])
            self.copied_segments += 1
            self.copied_bytes += entry.size_bytes

    async def _delete_expired(self, partition: Partition, own: PartitionArchive) -> None:
        kept = partition.log.archive.entries
        if own.listed == kept:
            return
        kept_offsets = {entry.base_offset for entry in kept}
        expired = [entry for entry in own.listed if entry.base_offset not in kept_offsets]
        # Until all is deleted, only the archive itself shows what is left there.
        self._reconciled.discard(own)
        await self._write_list(partition, own, kept)
        for entry in expired:
            names = object_names(own.prefix, entry.base_offset)
            await self._in_thread(self.shared.store.delete, names)
            with suppress(FileNotFoundError):
                self._files.remove(aborted_path(partition.log.directory, entry.base_offset))
            self.deleted_segments += 1
        self._reconciled.add(own)

    async def _write_list(
        self, partition: Partition, own: PartitionArchive, entries: tuple[ArchivedSegment, ...]
    ) -> None:
        await self._in_thread(own.write_list, self._files, partition.log.directory, entries)

    async def _delete_topics(self) -> None:
        deletions = self._topics.archive_deletions
        for topic_id in deletions.pending():
            found = await self._in_thread(self.shared.store.list, f"{topic_id}/")
            await self._in_thread(self.shared.store.delete, _manifests_first(name for name, _ in found))
            deletions.done(topic_id)
            logger.info("the archive of a deleted topic was deleted", extra={"topic_id": topic_id})

    # After a start

    async def _reconcile(self, partition: Partition, own: PartitionArchive) -> None:
        """Compare the archive with the list: delete garbage, and restore a list that was lost."""
        log = partition.log
        found = await self._in_thread(self.shared.store.list, own.prefix)
        names = [name for name, _ in found]
        if not own.has_list and log.config.is_archived:
            await self._make_list(partition, own, names)
        kept = {entry.base_offset for entry in own.listed}
        if log.config.is_archived:
            kept.update(log.segments.base_offsets)  # perhaps copied in part, and to be copied again
        garbage = _manifests_first(name for name in names if base_offset_of(name) not in {None, *kept})
        if garbage:
            await self._in_thread(self.shared.store.delete, garbage)
            logger.info(
                "garbage in the archive deleted", extra={"partition": str(partition), "names": garbage}
            )
        self._reconciled.add(own)

    async def _make_list(self, partition: Partition, own: PartitionArchive, names: list[str]) -> None:
        """The first list of a partition: empty, unless the archive has segments of it."""
        manifests = [name for name in names if name.endswith(MANIFEST_SUFFIX)]
        entries: tuple[ArchivedSegment, ...] = ()
        if manifests:
            entries = await self._in_thread(self._find_entries, partition.log, manifests)
        await self._write_list(partition, own, entries)
        if entries:
            partition.log.archive.adopt(entries)
            logger.warning(
                "the list of archived segments was missing and is restored from the archive",
                extra={"partition": str(partition), "segments": len(entries)},
            )

    def _find_entries(self, log: PartitionLog, manifests: Iterable[str]) -> tuple[ArchivedSegment, ...]:
        """The newest unbroken run of archived segments that reaches the local ones, by their manifests. In a thread."""
        found: dict[str, ArchivedSegment] = {}
        next_offset = -1
        for name in sorted(manifests):
            content = self.shared.store.read(name)
            try:
                entry = entry_of(decode_manifest(content), crc32c(content))
            except InvalidFile as error:
                logger.error("a manifest can't be read", extra={"object": name, "reason": str(error)})
                continue
            if next_offset != entry.base_offset:
                found.clear()
            found[name] = entry
            next_offset = entry.next_offset
        if next_offset not in log.segments.base_offsets:
            return ()
        for name, entry in found.items():
            if entry.aborted_transactions:
                aborted = self.shared.store.read(name.removesuffix(MANIFEST_SUFFIX) + ABORTED_INDEX_SUFFIX)
                self._files.write_whole(aborted_path(log.directory, entry.base_offset), aborted)
        return tuple(found.values())

    async def _in_thread(self, work: Callable[..., Result], *arguments: Any) -> Result:
        return await self._loop.run_in_executor(self._threads, work, *arguments)


def _manifests_first(names: Iterable[str]) -> list[str]:
    """The order of a deletion: so the rest of an interrupted one does not look like a segment."""
    return sorted(names, key=lambda name: not name.endswith(MANIFEST_SUFFIX))
