"""Whether the archive is reachable: counted for metrics, and logged when it changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headrace.clock import Clock
from headrace.log.archive.store import ArchiveStore
from headrace.log.errors import ArchiveUnreachable, CorruptArchive

logger = logging.getLogger(__name__)

# Damaged objects that are kept, so that each is logged once.
CORRUPT_NAMES_MAX = 1_000


class ArchiveHealth:
    """Gets the outcome of every use of the archive, from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failing: set[str] = set()
        self._corrupt: set[str] = set()
        self.failures = 0
        self.corrupt_reads = 0
        self.last_success_ms = 0

    @property
    def is_reachable(self) -> bool:
        return not self._failing

    def succeeded(self, operation: str) -> None:
        self.last_success_ms = self._clock.now_ms()
        if operation in self._failing:
            with self._lock:
                self._failing.discard(operation)
            logger.info("the archive is reachable again", extra={"operation": operation})

    def failed(self, operation: str, error: ArchiveUnreachable) -> None:
        with self._lock:
            self.failures += 1
            is_news = operation not in self._failing
            self._failing.add(operation)
        if is_news:
            logger.warning(
                "the archive can't be used; local copies are kept, and it is retried",
                extra={"operation": operation, "reason": str(error)},
            )

    def corrupt(self, error: CorruptArchive) -> None:
        with self._lock:
            self.corrupt_reads += 1
            is_news = error.name not in self._corrupt and len(self._corrupt) < CORRUPT_NAMES_MAX
            if is_news:
                self._corrupt.add(error.name)
        if is_news:
            logger.error("an archived segment is damaged", extra={"object": error.name, "reason": str(error)})


class WatchedStore:
    """A store that reports every use to its health."""

    def __init__(self, store: ArchiveStore, health: ArchiveHealth) -> None:
        self._store = store
        self._health = health

    @property
    def address(self) -> str:
        return self._store.address

    def put_file(self, name: str, path: str) -> None:
        with self._watched("write"):
            self._store.put_file(name, path)

    def put(self, name: str, content: bytes) -> None:
        with self._watched("write"):
            self._store.put(name, content)

    def read(self, name: str, position: int = 0, count: int | None = None) -> bytes:
        with self._watched("read"):
            return self._store.read(name, position, count)

    def delete(self, names: Sequence[str]) -> None:
        with self._watched("delete"):
            self._store.delete(names)

    # Last, because this name would hide the type `list` above.
    def list(self, prefix: str) -> list[tuple[str, int]]:
        with self._watched("list"):
            return self._store.list(prefix)

    @contextmanager
    def _watched(self, operation: str) -> Iterator[None]:
        try:
            yield
        except ArchiveUnreachable as error:
            self._health.failed(operation, error)
            raise
        self._health.succeeded(operation)
