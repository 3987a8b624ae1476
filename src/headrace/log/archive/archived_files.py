"""The files of an archived segment as a file system, so that the code that reads local segments reads these, too.

Only threads that may wait use it. A chunk is checked when it arrives from the archive and then kept in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from headrace.log.archive.cache import ArchiveCache
from headrace.log.archive.manifest import FileSum, Manifest, decode_manifest
from headrace.log.archive.object_names import MANIFEST_SUFFIX
from headrace.log.archive.store import ArchiveStore
from headrace.log.errors import ArchiveUnreachable, CorruptArchive, InvalidFile, ObjectMissing, WouldBlock
from headrace.log.filesystem import Buffer
from headrace.log.segment_names import LOG_SUFFIX
from headrace.records.batch import crc32c


class Archive:
    """The archive of a broker, for its readers. Without a store every read fails."""

    def __init__(
        self,
        store: ArchiveStore | None,
        cache: ArchiveCache,
        *,
        report: Callable[[CorruptArchive], None] = lambda error: None,
    ) -> None:
        self._store = store
        self.cache = cache
        self.report = report
        """Called with damage that a read found."""

    @property
    def is_configured(self) -> bool:
        return self._store is not None

    @property
    def store(self) -> ArchiveStore:
        if self._store is None:
            raise ArchiveUnreachable(
                "these records are in an archive, and archive_address is not set",
                hint="start the broker with archive_address",
            )
        return self._store

    def read(self, name: str, position: int = 0, count: int | None = None) -> bytes:
        try:
            return self.store.read(name, position, count)
        except ObjectMissing:
            raise self.corrupt(name, "it is missing") from None

    def corrupt(self, name: str, reason: str) -> CorruptArchive:
        return CorruptArchive(name=name, address=self.store.address, reason=reason)


class ArchivedFiles:
    """The files of one archived segment, as a read-only file system."""

    def __init__(self, shared: Archive, stem: str, manifest_crc32c: int) -> None:
        self._shared = shared
        self._stem = stem
        self._manifest_crc32c = manifest_crc32c
        self._manifest: Manifest | None = None

    def manifest(self) -> Manifest:
        if self._manifest is None:
            name = self._stem + MANIFEST_SUFFIX
            content = self._shared.read(name)
            if crc32c(content) != self._manifest_crc32c:
                raise self._shared.corrupt(name, "its checksum does not match")
            try:
                self._manifest = decode_manifest(content)
            except InvalidFile as error:
                raise self._shared.corrupt(name, str(error)) from None
        return self._manifest

    def _sum(self, path: str) -> FileSum:
        found = self.manifest().files.get(path.removeprefix(self._stem))
        if found is None:
            raise FileNotFoundError(path)
        return found

    def open(self, path: str) -> int:
        self._sum(path)
        return 0

    def close(self, fd: int) -> None:
        """There is nothing to close."""

    def read(self, fd: int, count: int, position: int) -> bytes:
        """Read from the log, the only file that is read in parts."""
        name = self._stem + LOG_SUFFIX
        chunk_bytes = self.manifest().chunk_bytes
        end = min(position + count, self._sum(name).size_bytes)
        parts: list[bytes] = []
        while position < end:
            number, at = divmod(position, chunk_bytes)
            part = self._chunk(name, number, at, min(end - position, chunk_bytes - at))
            parts.append(part)
            position += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_nowait(self, fd: int, count: int, position: int) -> Buffer:
        raise WouldBlock

    def _chunk(self, name: str, number: int, position: int, count: int) -> bytes:
        """Part of one chunk; never empty."""
        manifest, of_file = self.manifest(), self._sum(name)
        start = number * manifest.chunk_bytes
        size_bytes = min(manifest.chunk_bytes, of_file.size_bytes - start)

        def load() -> bytes:
            content = self._shared.read(name, start, size_bytes)
            if len(content) != size_bytes or crc32c(content) != of_file.chunk_crcs[number]:
                raise self._shared.corrupt(name, f"the checksum of {size_bytes} bytes at {start} differs")
            return content

        part = self._shared.cache.read(f"{name}#{number}", position, count, load)
        if len(part) != count:
            # A file of the cache was truncated; the archive still has it.
            return load()[position : position + count]
        return part

    def size(self, path: str) -> int:
        return self._sum(path).size_bytes

    def read_whole(self, path: str) -> bytes:
        """Read an index, which is only a shortcut: a damaged one is reported and treated as missing."""
        size_bytes = self._sum(path).size_bytes
        try:
            return b"".join(
                self._chunk(path, number, 0, min(size_bytes - start, self.manifest().chunk_bytes))
                for number, start in enumerate(range(0, size_bytes, self.manifest().chunk_bytes))
            )
        except CorruptArchive as error:
            self._shared.report(error)
            return b""

    def modified_ms(self, path: str) -> int:
        return self.manifest().written_ms

    # An archived segment never changes.

    def _reject(self, *_: object, **__: object) -> NoReturn:
        raise AssertionError(f"{self._stem} is in the archive and cannot be changed")

    create = open_directory = write = truncate = sync = sync_names = sync_directory = rename = remove = (
        _reject
    )
    remove_directory = make_directory = list_directory = write_whole = _reject
